"""``zbk ledger``: the group; its commands are in ``read``, ``write``, ``recover``, ``check``."""

import click

from zbk.cli.command import LazyCommand, LazyGroup

COMMANDS = {
    "create": LazyCommand("zbk.cli.ledger.write:create", "Reserve a ledger; print its id."),
    "append": LazyCommand("zbk.cli.ledger.write:append", "Write a file or a pipe into a ledger."),
    "cat": LazyCommand("zbk.cli.ledger.read:cat", "Write a ledger's payloads to standard output."),
    "read": LazyCommand("zbk.cli.ledger.read:read", "List a ledger's entries."),
    "ls": LazyCommand("zbk.cli.ledger.read:ls", "List the ledgers."),
    "show": LazyCommand("zbk.cli.ledger.read:show", "Show the metadata of a ledger."),
    "sync": LazyCommand("zbk.cli.ledger.write:sync", "Make an open ledger's entries durable."),
    "recover": LazyCommand(
        "zbk.cli.ledger.recover:recover",
        "Close a ledger in place of its writer.",
    ),
    "check": LazyCommand(
        "zbk.cli.ledger.check:check",
        "Check that the replicas of a ledger are on the bookies that its metadata name.",
    ),
    "underreplicated": LazyCommand(
        "zbk.cli.ledger.check:underreplicated", "List the ledgers that lack replicas."
    ),
    "close": LazyCommand("zbk.cli.ledger.write:close", "Close a reserved ledger, empty."),
    "delete": LazyCommand("zbk.cli.ledger.write:delete", "Delete a ledger for good."),
}


@click.group(
    "ledger",
    cls=LazyGroup,
    lazy=COMMANDS,
    examples=[
        ("zbk ledger append access.log", "a new ledger, one entry per line"),
        ("zbk ledger cat 0 --lines", "the lines again"),
    ],
)
def ledger() -> None:
    """Create, write, read and inspect ledgers."""
