"""``zbk inspect``: the group; its commands are in ``journal``, ``entrylog`` and ``index``."""

from zbk.cli.command import commands_of, group

COMMANDS = commands_of(
    "zbk.cli.inspect",
    {
        "journal": ("journal:journal", "Show the records of journal files."),
        "entrylog": ("entrylog:entrylog", "Show the entries and the map of entry logs."),
        "index": ("index:index", "Show the contents of index files."),
    },
)


@group(
    "inspect",
    COMMANDS,
    ("zbk inspect journal /journal/zbk/*.journal", "its records, and how far it is synced"),
    ("zbk inspect entrylog copy/00000001.log -o json", "for programs"),
)
def inspect() -> None:
    """Print a bookie's files; change nothing.

    The files may be copies, or those of a running bookie. Damage is shown with its offset; the rest
    is shown as well. The exit code is 4 if anything was damaged. The end of a file that is being
    written, or that a crash cut off, may look damaged.
    """
