"""Asking before something that cannot be undone."""

import sys

import click

from zbk.cli.output import note
from zbk.cli.streams import is_terminal

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def is_confirmed(warning: str, question: str, *, yes: bool) -> bool:
    """Return whether to go on: shows the warning, asks unless ``yes``; on standard error.

    Raises:
        UsageError: nobody is there to be asked.
    """
    if not yes and not is_terminal(sys.stdin):
        raise click.UsageError("There is no terminal to ask in: give --yes.")
    if warning:
        note(f"zbk: {warning}")
    if yes or click.confirm(question, err=True):
        return True
    note("zbk: nothing was changed")
    return False
