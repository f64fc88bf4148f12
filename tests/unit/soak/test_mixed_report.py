"""The verdict on a mixed run: what makes it fail, and what does not."""

from pathlib import Path

import msgspec
import pytest

from tests.soak.mixed.disk import DiskUse, Kept
from tests.soak.mixed.payloads import Plan
from tests.soak.mixed.picture import draw, lives
from tests.soak.mixed.report import MIB, Report, failures_of, markdown
from tests.soak.mixed.samples import ProcessSample, Sample, Trend, trend
from tests.soak.mixed.shelf import Counts, TypeCounts
from zbk.protocol.entry.words import LedgerType


def flat() -> Trend:
    return Trend(
        sample_count=180,
        seconds=1_800.0,
        rss_mean_size=60 * MIB,
        rss_growth_size=2 * MIB,
        fd_mean=40.0,
        fd_growth=0.5,
    )


def good() -> Report:
    return Report(
        seed=1,
        minutes=60.0,
        metadata="sqlite",
        command="python -m tests.soak.mixed",
        counts=Counts(read_count=10, scrub_count=3),
        disk=DiskUse(entry_log_size=140 * MIB, index_size=MIB, journal_size=900 * MIB),
        kept=Kept(live_size=100 * MIB),
        trends={"bookie 0": flat()},
        failures=[],
        violations=[],
        samples=[],
    )


def test_a_good_run_passes_and_preallocated_journals_do_not_count() -> None:
    assert failures_of(good()) == []
    assert "141 / 100 MiB = 1.41" in markdown(good())


def test_each_type_of_ledgers_is_counted_and_has_to_be_read_in_a_long_run() -> None:
    counts = Counts(read_count=10, scrub_count=3)
    counts.by_type["VD_BYPASS_JOURNAL"] = TypeCounts(4, 2_000, 1_500)
    counts.by_type["VD_JOURNAL"] = TypeCounts(3, 900, 0)
    report = msgspec.structs.replace(good(), counts=counts)

    assert "| of these VD_BYPASS_JOURNAL | 1,500, in 4 ledgers written |" in markdown(report)
    assert failures_of(report) == ["nothing was read of 3 ledgers of type VD_JOURNAL"]
    assert failures_of(msgspec.structs.replace(report, minutes=2.0)) == []


def test_the_growth_of_memory_is_told_by_the_minute() -> None:
    """Slow growth passes, and would not end: it has to be seen."""
    assert "RSS 60 MiB +2.0 (+68 KiB a minute)" in markdown(good())


def test_the_memory_of_each_life_is_drawn(tmp_path: Path) -> None:
    def sample(at_s: float, pid: int, size: int) -> Sample:
        process = ProcessSample(pid, size * MIB, 1)
        return Sample(at_s, {"bookie 0": process}, DiskUse(), 0, Counts(), 0)

    samples = [sample(0, 7, 30), sample(60, 7, 32), sample(120, 8, 20), sample(180, 8, 24)]
    draw(samples, tmp_path / "rss.svg")

    assert lives(samples, "bookie 0") == [[(0, 30), (1, 32)], [(2, 20), (3, 24)]]
    assert "bookie 0" in (tmp_path / "rss.svg").read_text("utf-8")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"violations": ["ledger 3 entry 5 has other bytes"]}, "entry 5 has other bytes"),
        ({"disk": DiskUse(entry_log_size=170 * MIB)}, "1.70 times the live bytes"),
        ({"kept": Kept(live_size=100 * MIB, dead_ledger_count=2)}, "2 deleted ledgers"),
        ({"counts": Counts(scrub_count=3)}, "nothing was read"),
        ({"counts": Counts(read_count=10)}, "nothing was scrubbed"),
    ],
)
def test_what_is_demanded_and_missing_is_told(change: dict[str, object], told: str) -> None:
    (failure,) = failures_of(msgspec.structs.replace(good(), **change))

    assert told in failure


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rss_growth_size": 9 * MIB}, "bookie 0 grew by 9.0 MiB"),
        ({"fd_growth": 6.0}, "6.0 more descriptors"),
    ],
)
def test_growth_fails_a_long_run_and_is_only_shown_of_a_short_one(
    change: dict[str, float], told: str
) -> None:
    grown = {"bookie 0": msgspec.structs.replace(flat(), **change)}

    (failure,) = failures_of(msgspec.structs.replace(good(), trends=grown))
    assert told in failure
    assert failures_of(msgspec.structs.replace(good(), trends=grown, minutes=2.0)) == []


def test_the_short_life_of_a_bookie_that_was_killed_is_shown_and_not_judged() -> None:
    young = msgspec.structs.replace(flat(), seconds=60.0, rss_growth_size=14 * MIB, fd_growth=17.0)
    trends = {"bookie 0": flat(), "bookie 1": young}

    report = msgspec.structs.replace(good(), trends=trends)

    assert failures_of(report) == []
    assert "bookie 1, last 60 s" in markdown(report)


def samples(rss: list[tuple[int, int]]) -> list[Sample]:
    """Return samples, ten seconds apart, of a process with this pid and memory."""
    return [
        Sample(
            at_s=10.0 * number,
            processes={"bookie 0": ProcessSample(pid, size, fd_count=20)},
            disk=DiskUse(),
            live_size=0,
            counts=Counts(),
            violation_count=0,
        )
        for number, (pid, size) in enumerate(rss)
    ]


def test_a_line_goes_through_the_second_half() -> None:
    found = trend(samples([(1, 1_000 * n) for n in range(20)]), "bookie 0")

    assert found is not None
    assert (found.sample_count, found.seconds) == (10, 90.0)
    assert found.rss_growth_size == pytest.approx(9_000)
    assert found.fd_growth == pytest.approx(0)


def test_of_a_process_that_was_killed_the_last_life_counts() -> None:
    found = trend(samples([(1, 5_000)] * 15 + [(2, 100), (2, 200), (2, 300)]), "bookie 0")

    assert found is not None
    assert (found.sample_count, found.rss_growth_size) == (3, 200)


def test_payloads_are_made_again_from_their_number() -> None:
    plan = Plan(5, 100_000, LedgerType.PD_JOURNAL, (3, 3, 2))
    payloads = [payload for batch in plan.batches() for payload in batch]

    assert list(plan.payloads(len(payloads))) == payloads
    assert list(plan.payloads(7)) == payloads[:7]
    assert sum(map(len, payloads)) + len(payloads) >= 100_000
