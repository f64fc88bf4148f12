"""The rings are bounded, and events are what changed between two samples."""

from tests.support.health import bookie_info
from zbk.console import history
from zbk.console.history import Event, EventLog, Gap, GapHistory, History, events_between
from zbk.console.metric_page import histograms_in, increase, percentiles
from zbk.health.bookie_scrape import BookieScrape
from zbk.health.cluster_rates import BookieSample, ClusterSample


def sample(at_s: int, *ids: str, readonly: str = "", lacking: int = 0) -> ClusterSample:
    return ClusterSample(
        at_us=at_s * 1_000_000,
        bookies=tuple(BookieSample(bookie_id=one, is_readonly=one == readonly) for one in ids),
        underreplicated_count=lacking,
    )


def kinds(before: ClusterSample, after: ClusterSample) -> list[tuple[str, str]]:
    return [(one.lane, one.kind) for one in events_between(before, after, 0)]


def test_bookies_that_come_go_and_become_read_only_are_events() -> None:
    assert kinds(sample(0, "a", "b"), sample(1, "b", "c", readonly="b")) == [
        ("a", "lost"),
        ("c", "joined"),
        ("b", "read-only"),
    ]
    assert kinds(sample(0, "a"), sample(1, "a")) == []


def test_a_bookie_that_is_silent_answers_again_or_starts_again() -> None:
    def at(incarnation: int | None) -> ClusterSample:
        info = None if incarnation is None else bookie_info("a", incarnation=incarnation)
        one = BookieSample(bookie_id="a", is_readonly=False, info=info)
        return ClusterSample(at_us=0, bookies=(one,), underreplicated_count=0, in_repair_count=0)

    assert kinds(at(1), at(None)) == [("a", "silent")]
    assert kinds(at(None), at(None)) == []
    assert kinds(at(None), at(2)) == [("a", "answers")]
    assert kinds(at(1), at(2)) == [("a", "restarted")]


def test_types_are_told_apart_only_if_all_bookies_serve_their_metrics() -> None:
    def at(second: int, *scraped: BookieScrape | None) -> ClusterSample:
        return ClusterSample(
            at_us=second * 1_000_000,
            bookies=tuple(
                BookieSample(
                    bookie_id=f"b-{n}", is_readonly=False, info=bookie_info(f"b-{n}"), scraped=one
                )
                for n, one in enumerate(scraped)
            ),
        )

    def adds(second: float) -> BookieScrape:
        return BookieScrape(0, 0, 0, 0, vd_entry_count=10 * second)

    ring = History()
    ring.add(at(0, adds(0), adds(0)), at(2, adds(2), adds(2)), 0)
    ring.add(at(0, adds(0), None), at(2, adds(2), None), 0)
    assert [one.vd_adds_per_s for one in ring.points] == [20, None]


def test_a_repair_begins_and_ends() -> None:
    assert kinds(sample(0, lacking=0), sample(1, lacking=3)) == [("repair", "repair began")]
    assert kinds(sample(0, lacking=3), sample(1, lacking=2)) == []
    assert kinds(sample(0, lacking=2), sample(1, lacking=0)) == [("repair", "repair ended")]


def test_the_rings_are_bounded() -> None:
    ring = History()
    for number in range(1_000):
        ids = ("a",) if number % 2 else ("b",)
        ring.add(sample(number, "x", *ids), sample(number + 1, "x"), number)
        ring.add_column("read", number, (1,))
    assert len(ring.points) == history.POINT_COUNT_MAX
    assert len(ring.events) == history.EVENT_COUNT_MAX
    assert len(ring.columns["read"]) == history.COLUMN_COUNT_MAX
    assert len(ring.spark("x")) == history.SPARK_COUNT_MAX
    assert ring.spark("a") == ring.fsync_spark("a") == []
    assert len(ring.fsync_spark("x")) == history.SPARK_COUNT_MAX


def test_events_have_one_order_even_if_their_clocks_do_not() -> None:
    log = EventLog()
    for at_ms in (5, 3, 9):
        log.add([Event(at_ms=at_ms, lane="a", kind="lost", text="")])
    found = log.after()
    assert [(one.number, one.at_ms) for one in found] == [(1, 5), (2, 5), (3, 9)]
    assert log.after(1) == found[1:]


def test_numbers_of_events_go_on_after_old_ones_were_dropped() -> None:
    log = EventLog()
    one = Event(at_ms=1, lane="a", kind="lost", text="")
    log.add([one] * (history.EVENT_COUNT_MAX + 7))
    numbers = [one.number for one in log.after()]
    assert numbers == list(range(8, history.EVENT_COUNT_MAX + 8))


def test_histograms_of_several_directories_are_summed_and_garbage_is_none() -> None:
    page = "".join(
        f'zbk_journal_fsync_seconds_bucket{{directory="/{name}",le="{bound}"}} {count}.0\n'
        for name in "ab"
        for bound, count in (("0.001", 2), ("0.0025", 5), ("+Inf", 5))
    )
    assert histograms_in(page) == {("zbk_journal_fsync_seconds", ""): (4, 6, 0)}
    assert histograms_in("<html>") == {}
    assert percentiles(()).p99_ms is None


def test_the_counts_of_a_bookie_that_restarted_are_all_new() -> None:
    assert increase((1, 5), (2, 6)) == (1, 1)
    assert increase((1, 5), (1, 0)) == (1, 0)
    assert increase((), (3, 4)) == (3, 4)


def test_gaps_are_kept_for_the_ledgers_that_were_read_last() -> None:
    gaps = GapHistory()
    for ledger_id in range(history.GAP_LEDGER_MAX + 1):
        for at_ms in range(history.GAP_COUNT_MAX + 1 if ledger_id == 5 else 2):
            gaps.add(ledger_id, Gap(at_ms, 0, 1, 2))
    assert len(gaps.add(history.GAP_LEDGER_MAX, Gap(9, 0, 1, 2))) == 3
    assert len(gaps.add(5, Gap(9, 0, 1, 2))) == history.GAP_COUNT_MAX
    assert len(gaps.add(0, Gap(9, 0, 1, 2))) == 1  # it was dropped
