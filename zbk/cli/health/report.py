"""Findings as commands print them, and the exit code that follows."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.options import duration_option
from zbk.errors import EXIT_UNHEALTHY

if TYPE_CHECKING:
    from zbk.health.finding import Finding


health_timeout_option = duration_option(
    "--timeout",
    "timeout_ms",
    default="5s",
    help_text="Time to wait for the metadata store, and then for all bookies together.",
)


def print_findings(found: "Sequence[Finding]") -> None:
    """Print each finding as one line, after an empty line."""
    if found:
        click.echo()
    for one in found:
        click.echo(f"{'problem' if one.is_problem else 'note'}: {one}")


def finding_rows(found: "Sequence[Finding]") -> list[dict[str, Any]]:
    """Return the findings as JSON shows them."""
    return [
        {
            "kind": one.kind,
            "is_problem": one.is_problem,
            "what": one.what,
            "consequence": one.consequence,
            "command": one.command,
            "subjects": list(one.subjects),
        }
        for one in found
    ]


def finish(found: "Sequence[Finding]") -> None:
    """End the command with exit code 10 if one of the findings is a problem."""
    from zbk.health.finding import has_problem

    if has_problem(found):
        sys.exit(EXIT_UNHEALTHY)
