"""The cases: their commands, goals and times.

Goals are those of the seed, section 10, for three bookies, 3/3/2, one client, fsync on, real
ZooKeeper, everything on one two-core machine. If such machines vary, a goal has two ways: the
absolute figure, or the ratio to the floor that ran in turn.

``seconds`` of a case is the time of one of its rounds on such a machine; ``planned_seconds`` adds
them up, and a test keeps the sum below ``SECONDS_MAX``.
"""

from collections.abc import Sequence
from itertools import product
from typing import Final

from benchmarks import appends, growth, ledgers, reads
from benchmarks.case import Case

SECONDS_MAX: Final = 20 * 60
ROUND_COUNT: Final = 3
LONG_RUN_SECONDS: Final = 18

APPEND_MANY: Final = (
    # type, bytes of payload, entries, field, goal
    ("pd", 100, 1_500_000, "entries_per_s", 450_000),
    ("pd", 1024, 300_000, "entries_per_s", 150_000),
    ("pd", 16384, 20_000, "payload_mb_per_s", 260),
    ("vd", 100, 1_500_000, "entries_per_s", 700_000),
    ("vd", 1024, 300_000, "entries_per_s", 200_000),
    ("vd", 16384, 20_000, "payload_mb_per_s", 400),
)
APPEND_ASYNC: Final = (("pd", 300_000, 150_000), ("vd", 300_000, 200_000))
READ: Final = (
    # bytes of payload, entries, goal for single entries, goal for batches
    (100, 1_000_000, 800_000, 1_500_000),
    (1024, 400_000, 400_000, 600_000),
)
OTHER_SIZES: Final = ((10, 1_500_000), (4096, 80_000), (65_536, 5_000))
"""Only for the picture by entry size: bytes of payload, entries."""

SIZES: Final = tuple(
    sorted({size for _, size, *_ in APPEND_MANY} | {size for size, _ in OTHER_SIZES})
)
"""All sizes of the picture."""

OFFERED: Final = (10_000, 100_000, 400_000, 1_000_000, 2_500_000)
"""Entries a second, from idle to more than the cluster can write."""


def cases(long_run_seconds: int = LONG_RUN_SECONDS) -> tuple[Case, ...]:
    """Return all cases, in the order in which they run."""
    return (
        *(appends.append_many(*one) for one in APPEND_MANY),
        *(appends.append_async(*one) for one in APPEND_ASYNC),
        *(appends.lone(kind) for kind in ("pd", "vd")),
        *(ledgers.outstanding(count) for count in ledgers.COUNTS),
        ledgers.threads(),
        *(ledgers.processes(count) for count in ledgers.PROCESS_COUNTS),
        *(
            reads.read(size, count, goals[is_batches], is_batches=is_batches, is_cold=is_cold)
            for (size, count, *goals), is_batches, is_cold in product(
                READ, (False, True), (False, True)
            )
        ),
        reads.tail(),
        growth.beside(),
        appends.beside_fsyncs(),
        appends.fairness(),
        appends.bypass(),
        appends.encryption(),
        reads.recovery(),
        reads.restart(),
        growth.length(),
        growth.memory(),
        *(
            appends.other_size(kind, size, count)
            for kind in ("pd", "vd")
            for size, count in OTHER_SIZES
        ),
        *(appends.offered_load(kind, OFFERED) for kind in ("pd", "vd")),
        growth.long_run(long_run_seconds),
    )


def planned_seconds(chosen: Sequence[Case], round_count: int) -> int:
    """Return the seconds that all rounds of these cases take."""
    return sum(case.seconds * (case.round_count or round_count) for case in chosen)
