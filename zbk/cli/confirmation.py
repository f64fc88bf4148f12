"""Confirmation of a change that cannot be undone."""

import sys

import click

from zbk.cli.output import note
from zbk.cli.streams import is_terminal

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def check_can_ask(*, yes: bool) -> None:
    """Check that there is a terminal to ask in, or no need to ask.

    Raises:
        click.UsageError: there is neither.
    """
    if not yes and not is_terminal(sys.stdin):
        raise click.UsageError("There is no terminal to ask in: give --yes.")


def is_confirmed(question: str, *, yes: bool, warning: str = "") -> bool:
    """Return whether to continue: print the warning, and ask unless ``yes``; on standard error.

    Raises:
        click.UsageError: there is no terminal to ask in.
    """
    check_can_ask(yes=yes)
    if warning:
        note(f"zbk: {warning}")
    if yes or click.confirm(question, err=True):
        return True
    note("zbk: nothing was changed")
    return False
