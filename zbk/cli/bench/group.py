"""``zbk bench``: measure writes, reads and syncs, and the floor that they are compared with."""

import click

from zbk.cli.command import LazyCommand, LazyGroup


@click.group(
    "bench",
    cls=LazyGroup,
    lazy={
        "write": LazyCommand(
            "zbk.cli.bench.write:write", "Measure append throughput, latency and CPU cost."
        ),
        "read": LazyCommand(
            "zbk.cli.bench.read:read",
            "Measure read throughput and CPU cost.",
        ),
        "sync": LazyCommand(
            "zbk.cli.bench.sync:sync",
            "Measure the latency of append and sync of a VD ledger.",
        ),
        "floor": LazyCommand(
            "zbk.cli.bench.floor:floor",
            "Measure the floor: the same batches sent to three bare processes.",
        ),
        "tail": LazyCommand(
            "zbk.cli.bench.read:tail",
            "Measure the delay of a tail reader at a given rate.",
        ),
    },
    examples=[("zbk bench write --size 1024 --against-floor", "1 KiB, and the ratio to the floor")],
)
def bench() -> None:
    """Measure writes, reads, syncs and the floor."""
