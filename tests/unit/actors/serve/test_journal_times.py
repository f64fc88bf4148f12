"""The times of a journal: rows are counted when they are read, each part once."""

from zbk.actors.serve.journal_times import NO_FSYNC, JournalTimes
from zbk.metrics.buckets import Buckets
from zbk.protocol.entry.words import LedgerType

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL


def seen(buckets: Buckets) -> tuple[int, int]:
    return sum(buckets.counts), buckets.sum_us


def test_each_part_of_a_row_is_in_its_histogram() -> None:
    times = JournalTimes()
    times.observed.put(([(10, 200)], 3_000, [((PD,), 4_000)]))
    times.observed.put(([(20, 300), (30, 400)], NO_FSYNC, [((PD, VD), 500), ((VD,), 600)]))
    times.observed.put(([], NO_FSYNC, []))

    assert seen(times.waits) == (3, 60)
    assert seen(times.writes) == (3, 900)
    assert seen(times.fsyncs) == (1, 3_000)
    assert {kind: seen(one) for kind, one in times.answers.items()} == {
        PD: (2, 4_500),
        VD: (2, 1_100),
        LedgerType.VD_BYPASS_JOURNAL: (0, 0),
    }


def test_what_comes_after_a_reading_is_added_to_it() -> None:
    times = JournalTimes()
    times.observed.put(([], 1_000, []))
    assert seen(times.fsyncs) == (1, 1_000)

    times.observed.put(([], 2_000, []))

    assert seen(times.fsyncs) == (2, 3_000)
