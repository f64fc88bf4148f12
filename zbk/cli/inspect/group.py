"""``zbk inspect``: the group. Commands: ``inspect_journal``, ``_entrylog``, ``_index``."""

import click

from zbk.cli.command import LazyCommand, LazyGroup

COMMANDS = {
    "journal": LazyCommand("zbk.cli.inspect.journal:journal", "Show the records of journal files."),
    "entrylog": LazyCommand(
        "zbk.cli.inspect.entrylog:entrylog", "Show the entries and the map of entry logs."
    ),
    "index": LazyCommand("zbk.cli.inspect.index:index", "Show what index files say of ledgers."),
}


@click.group(
    "inspect",
    cls=LazyGroup,
    lazy=COMMANDS,
    examples=[
        ("zbk inspect journal /journal/zbk/*.journal", "what was promised, and how far synced"),
        ("zbk inspect entrylog copy/00000001.log -o json", "for programs"),
    ],
)
def inspect() -> None:
    """Look into a bookie's files; change nothing.

    The files may be a running bookie's, or copies. What is damaged is shown with its offset; the
    rest is shown all the same. The exit code is 4 if anything was damaged: so may the end of a file
    be that is being written, or that a crash cut off.
    """
