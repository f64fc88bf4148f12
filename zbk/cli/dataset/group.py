"""``zbk dataset``: the group; its commands are in ``read`` and ``write``."""

from zbk.cli.command import commands_of, group

COMMANDS = commands_of(
    "zbk.cli.dataset",
    {
        "ls": ("read:ls", "List the data sets."),
        "show": ("read:show", "Show one version of a data set."),
        "history": ("read:history", "List the versions of a data set."),
        "loads": ("read:loads", "List the loads of a data set."),
        "abort": ("write:abort", "Abort a load whose driver is gone."),
        "drop": ("write:drop", "Drop a data set, or one of its versions."),
        "gc": ("write:gc", "Delete ledgers that no version needs."),
    },
)


@group(
    "dataset",
    COMMANDS,
    ("zbk dataset ls", "all data sets"),
    ("zbk dataset show events", "columns, rows, open loads"),
    ("zbk dataset loads events", "the open loads, with their times"),
    ("zbk dataset gc --all --dry-run", "the ledgers that could be deleted"),
)
def dataset() -> None:
    """Inspect, drop and clean up the data sets that Spark loads.

    A data set is a named list of versions, and a version a list of ledgers. A load adds one
    version, as a whole or not at all; a version never changes.
    """
