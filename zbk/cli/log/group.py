"""``zbk log``: the group; its commands are in ``read`` and ``write``."""

import click

from zbk.cli.command import LazyCommand, LazyGroup

COMMANDS = {
    "append": LazyCommand("zbk.cli.log.write:append", "Write a file or a pipe to a log's end."),
    "cat": LazyCommand("zbk.cli.log.read:cat", "Write a log's payloads to standard output."),
    "ls": LazyCommand("zbk.cli.log.read:ls", "List the logs."),
    "show": LazyCommand("zbk.cli.log.read:show", "Show the ledgers of a log."),
    "truncate": LazyCommand("zbk.cli.log.write:truncate", "Delete a log's oldest ledgers."),
    "delete": LazyCommand("zbk.cli.log.write:delete", "Delete a log and its ledgers for good."),
}


@click.group(
    "log",
    cls=LazyGroup,
    lazy=COMMANDS,
    examples=[
        ("zbk log append orders < orders.txt", "one entry per line, after the existing ones"),
        ("zbk log cat orders --lines --follow", "the lines, also new ones"),
    ],
)
def log() -> None:
    """Append to, read and inspect logs made of ledgers.

    A log is a list of ledgers with one owner at a time. A client that appends takes the log over:
    the former owner cannot append any more, and no entry that was acknowledged to it is lost.
    """
