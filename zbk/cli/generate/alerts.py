"""``zbk generate alerts``."""

import click

from zbk.cli.command import ZbkCommand

RUNBOOKS = "docs/runbooks.md"  # as ``zbk.metrics.alerts`` has it


@click.command(
    "alerts",
    cls=ZbkCommand,
    examples=[
        ("zbk generate alerts > zbk-alerts.yml", "a file for rule_files of prometheus.yml"),
        ("zbk generate alerts --runbooks https://wiki/zbk", "links to a copy of the runbooks"),
    ],
)
@click.option(
    "--runbooks",
    metavar="URL",
    default=RUNBOOKS,
    show_default=True,
    help="Where docs/runbooks.md is published; each alert links to its section.",
)
def alerts(runbooks: str) -> None:
    """Print the alert rules for Prometheus.

    Each rule uses metrics of docs/metrics.md. Check them with `promtool check rules FILE`.
    """
    from zbk.metrics.alerts import rules

    click.echo(rules(runbooks), nl=False)
