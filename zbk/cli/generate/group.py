"""``zbk generate``: the group. Each command is a module of its own."""

import click

from zbk.cli.command import LazyCommand, LazyGroup

COMMANDS = {
    "completion": LazyCommand(
        "zbk.cli.generate.completion:completion", "Print the completion script for a shell."
    ),
    "systemd": LazyCommand(
        "zbk.cli.generate.systemd:systemd",
        "Print a systemd unit for a bookie, autorecovery or the console.",
    ),
    "compose": LazyCommand(
        "zbk.cli.generate.compose:compose",
        "Print a compose file: ZooKeeper, bookies, autorecovery, console.",
    ),
    "k8s": LazyCommand(
        "zbk.cli.generate.k8s:k8s", "Print Kubernetes manifests: bookies, autorecovery, console."
    ),
    "token": LazyCommand(
        "zbk.cli.generate.token:token",
        "Print a new token for admin APIs, or make a file with one.",
    ),
    "alerts": LazyCommand(
        "zbk.cli.generate.alerts:alerts", "Print the alert rules for Prometheus."
    ),
    "grafana": LazyCommand("zbk.cli.generate.grafana:grafana", "Print a dashboard for Grafana."),
}


@click.group(
    "generate",
    cls=LazyGroup,
    lazy=COMMANDS,
    examples=[
        ("zbk generate completion bash", "a script for the shell"),
        ("zbk generate systemd --config /etc/zbk/bookie.toml", "a unit with a sandbox"),
    ],
)
def generate() -> None:
    """Print files for shells and service managers."""
