"""``zbk generate grafana``."""

import click

from zbk.cli.command import ZbkCommand


@click.command(
    "grafana",
    cls=ZbkCommand,
    examples=[("zbk generate grafana > zbk.json", "then, in Grafana: Dashboards, New, Import")],
)
def grafana() -> None:
    """Print a dashboard for Grafana.

    It asks for the Prometheus data source when it is imported.
    """
    from zbk.metrics.dashboard import dashboard

    click.echo(dashboard(), nl=False)
