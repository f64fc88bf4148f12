"""``zbk ledger``: the group; its commands are in the modules that the table names."""

from zbk.cli.command import commands_of, group

COMMANDS = commands_of(
    "zbk.cli.ledger",
    {
        "create": ("write:create", "Reserve a ledger; print its id."),
        "append": ("write:append", "Write a file or a pipe into a ledger."),
        "cat": ("read:cat", "Write a ledger's payloads to standard output."),
        "read": ("read:read", "List a ledger's entries."),
        "ls": ("read:ls", "List the ledgers."),
        "show": ("read:show", "Show the metadata of a ledger."),
        "sync": ("write:sync", "Make an open ledger's entries durable."),
        "recover": ("recover:recover", "Close a ledger in place of its writer."),
        "check": (
            "check:check",
            "Check that the replicas of a ledger are on the bookies that its metadata name.",
        ),
        "grant": ("grant:grant", "Grant rights in a ledger to a principal, or to '*' (all)."),
        "underreplicated": ("check:underreplicated", "List the ledgers that lack replicas."),
        "close": ("write:close", "Close a reserved ledger, empty."),
        "delete": ("write:delete", "Delete a ledger for good."),
    },
)


@group(
    "ledger",
    COMMANDS,
    ("zbk ledger append access.log", "a new ledger, one entry per line"),
    ("zbk ledger cat 0 --lines", "the lines again"),
)
def ledger() -> None:
    """Create, write, read and inspect ledgers."""
