"""``zbk log``: the group; its commands are in ``read`` and ``write``."""

from zbk.cli.command import commands_of, group

COMMANDS = commands_of(
    "zbk.cli.log",
    {
        "append": ("write:append", "Write a file or a pipe to a log's end."),
        "cat": ("read:cat", "Write a log's payloads to standard output."),
        "ls": ("read:ls", "List the logs."),
        "show": ("read:show", "Show the ledgers of a log."),
        "truncate": ("write:truncate", "Delete a log's oldest ledgers."),
        "delete": ("write:delete", "Delete a log and its ledgers for good."),
    },
)


@group(
    "log",
    COMMANDS,
    ("zbk log append orders < orders.txt", "one entry per line, after the existing ones"),
    ("zbk log cat orders --lines --follow", "the lines, also new ones"),
)
def log() -> None:
    """Append to, read and inspect logs made of ledgers.

    A log is a list of ledgers with one owner at a time. A client that appends takes the log over:
    the former owner cannot append any more, and no entry that was acknowledged to it is lost.
    """
