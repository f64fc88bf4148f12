"""``zbk bench``: measure writes, reads and syncs, and the floor that they are compared with."""

from zbk.cli.command import commands_of, group


@group(
    "bench",
    commands_of(
        "zbk.cli.bench",
        {
            "write": ("write:write", "Measure append throughput, latency and CPU cost."),
            "read": ("read:read", "Measure read throughput and CPU cost."),
            "sync": ("sync:sync", "Measure the latency of append and sync of a VD ledger."),
            "floor": (
                "floor:floor",
                "Measure the floor: the same batches sent to three bare processes.",
            ),
            "tail": ("read:tail", "Measure the delay of a tail reader at a given rate."),
        },
    ),
    ("zbk bench write --size 1024 --against-floor", "1 KiB, and the ratio to the floor"),
)
def bench() -> None:
    """Measure writes, reads, syncs and the floor."""
