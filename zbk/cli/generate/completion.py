"""``zbk generate completion``: the script with which a shell completes command lines."""

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.completion import COMPLETE_VARIABLE


@click.command(
    "completion",
    cls=ZbkCommand,
    examples=[
        ("source <(zbk generate completion bash)", "in ~/.bashrc; zsh likewise in ~/.zshrc"),
        ("zbk generate completion fish > ~/.config/fish/completions/zbk.fish", "once"),
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    The shell then completes commands, options, choices, and the ids and names of ledgers, logs,
    data sets and bookies, which it looks up in the metadata store for 300 ms at most.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, "click knows each of the choices"
    script = found(ctx.find_root().command, {}, "zbk", COMPLETE_VARIABLE)
    click.echo(script.source_template % script.source_vars())
