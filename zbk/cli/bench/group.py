"""``zbk bench``: measure writes, reads and syncs, and the floor that they are compared with."""

import click

from zbk.cli.command import LazyCommand, LazyGroup


@click.group(
    "bench",
    cls=LazyGroup,
    lazy={
        "write": LazyCommand(
            "zbk.cli.bench.write:write",
            "Write one ledger, or several, and tell rates, latencies and costs.",
        ),
        "read": LazyCommand(
            "zbk.cli.bench.read:read",
            "Write a ledger, read it from end to end, and tell rates and costs of the reading.",
        ),
        "sync": LazyCommand(
            "zbk.cli.bench.sync:sync",
            "Append to a VD ledger and sync, in turn, and tell the latencies.",
        ),
        "floor": LazyCommand(
            "zbk.cli.bench.floor:floor",
            "Run the floor: the same batches to three bare processes, no protocol at all.",
        ),
        "tail": LazyCommand(
            "zbk.cli.bench.read:tail",
            "Append at a rate and tell how soon a reader that follows has the entries.",
        ),
    },
    examples=[("zbk bench write --size 1024 --against-floor", "1 KiB, and the ratio to the floor")],
)
def bench() -> None:
    """Measure writes, reads, syncs, repairs and the floor."""
