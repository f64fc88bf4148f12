"""The times of a journal: rows are counted when they are read, each part once."""

from zbk.actors.serve.journal_times import NO_WRITE, NONE, JournalTimes
from zbk.metrics.buckets import Buckets
from zbk.protocol.entry.words import LedgerType

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL


def seen(buckets: Buckets) -> tuple[int, int]:
    return sum(buckets.counts), buckets.sum_us


def test_each_part_of_a_row_is_in_its_histogram() -> None:
    times = JournalTimes()
    observed = times.keep()
    observed.put((1, 10, 200, 3_000, (PD,), 4_000))
    observed.put((1, 20, 300, NONE, (PD, VD), 500))
    observed.put((1, 30, 400, NONE, (), NONE))
    observed.put((*NO_WRITE, NONE, (VD,), 600))

    assert seen(times.waits) == (3, 60)
    assert seen(times.writes) == (3, 900)
    assert seen(times.fsyncs) == (1, 3_000)
    assert {kind: seen(one) for kind, one in times.answers.items()} == {
        PD: (2, 4_500),
        VD: (2, 1_100),
        LedgerType.VD_BYPASS_JOURNAL: (0, 0),
    }


def test_a_row_counts_for_all_that_it_stands_for() -> None:
    times = JournalTimes()
    observed = times.keep()
    observed.put((1, 0, 100, 1_000, (PD,), 2_000))
    observed.put((8, 0, 200, 2_000, (PD,), 3_000))

    assert seen(times.writes) == (9, 1_700)
    assert seen(times.fsyncs) == (9, 17_000)
    assert seen(times.answers[PD]) == (9, 26_000)


def test_what_comes_after_a_reading_is_added_to_it() -> None:
    times = JournalTimes()
    observed = times.keep()
    observed.put((*NO_WRITE, 1_000, (), NONE))
    assert seen(times.fsyncs) == (1, 1_000)

    observed.put((*NO_WRITE, 2_000, (), NONE))

    assert seen(times.fsyncs) == (2, 3_000)


def test_nothing_is_kept_before_it_is_asked_for() -> None:
    times = JournalTimes()

    assert times.observed is None
    assert seen(times.writes) == (0, 0)
