"""``zbk generate``: the group. Each command is a module of its own."""

import click

from zbk.cli.command import LazyCommand, LazyGroup

COMMANDS = {
    "completion": LazyCommand(
        "zbk.cli.generate.completion:completion", "Print the completion script for a shell."
    ),
}


@click.group(
    "generate",
    cls=LazyGroup,
    lazy=COMMANDS,
    examples=[("zbk generate completion bash", "a script for the shell")],
)
def generate() -> None:
    """Print files for shells and service managers."""
