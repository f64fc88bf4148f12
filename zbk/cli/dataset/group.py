"""``zbk dataset``: the group; its commands are in ``read`` and ``write``."""

import click

from zbk.cli.command import LazyCommand, LazyGroup

COMMANDS = {
    "ls": LazyCommand("zbk.cli.dataset.read:ls", "List the data sets."),
    "show": LazyCommand("zbk.cli.dataset.read:show", "Show one version of a data set."),
    "history": LazyCommand("zbk.cli.dataset.read:history", "List the versions of a data set."),
    "loads": LazyCommand("zbk.cli.dataset.read:loads", "List the loads of a data set."),
    "abort": LazyCommand("zbk.cli.dataset.write:abort", "Abort a load whose driver is gone."),
    "drop": LazyCommand("zbk.cli.dataset.write:drop", "Drop a data set, or one of its versions."),
    "gc": LazyCommand("zbk.cli.dataset.write:gc", "Delete ledgers that no version needs."),
}


@click.group(
    "dataset",
    cls=LazyGroup,
    lazy=COMMANDS,
    examples=[
        ("zbk dataset ls", "all data sets"),
        ("zbk dataset show events", "columns, rows, open loads"),
        ("zbk dataset loads events", "the open loads, with their times"),
        ("zbk dataset gc --all --dry-run", "the ledgers that could be deleted"),
    ],
)
def dataset() -> None:
    """Inspect, drop and clean up the data sets that Spark loads.

    A data set is a named list of versions, and a version a list of ledgers. A load adds one
    version, as a whole or not at all; a version never changes.
    """
