"""Tasks of ledgers that are not whole, on a store in memory that fails on cue."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.memory_store import MemoryTree
from zbk.errors import (
    CorruptRecordError,
    InvalidOptionError,
    MetadataUnavailableError,
    NoNodeError,
)
from zbk.metadata.paths import TASK_COUNTER
from zbk.metadata.records.autorecovery_switches import LOST_BOOKIE_DELAY_MAX_MS
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.store import Operation
from zbk.metadata.values import AuditCounter, decode
from zbk.protocol.ledger.changes import change_ensemble

LOST = MissingReason.LOST


class Cluster:
    """A tree, and two workers' stores."""

    def __init__(self) -> None:
        self.tree = MemoryTree("tasks")
        self.store = self.tree.open_session()
        self.other_store = self.tree.open_session()
        initialise(self.store)
        self.tasks = UnderreplicationStore(self.store, wall_clock_ms=lambda: 1_000)
        self.others = UnderreplicationStore(self.other_store, wall_clock_ms=lambda: 2_000)

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def test_a_report_whose_reply_was_lost_is_noted_once(cluster: Cluster) -> None:
    cluster.tasks.report(1, ["b1"], LOST)  # makes the parents
    cluster.store.lose_next_reply()

    assert cluster.tasks.report(7, ["b1"], LOST)

    found = cluster.others.read(7)
    assert found is not None
    assert (found[0].report_count, found[1]) == (1, 0)


def test_a_merge_whose_reply_was_lost_is_noted_once(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    cluster.store.lose_next_reply(2)  # one of them of the first attempt, to create, which fails

    cluster.tasks.report(7, ["b2"], LOST)

    found = cluster.others.read(7)
    assert found is not None
    assert list(found[0].missing) == ["b1", "b2"]


def test_a_report_of_which_nobody_knows_says_so(cluster: Cluster) -> None:
    cluster.store.suspend()

    with pytest.raises(MetadataUnavailableError):
        cluster.tasks.report(7, ["b1"], LOST)


def test_a_lock_whose_reply_was_lost_is_known_to_be_taken(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    cluster.store.lose_next_reply()

    assert cluster.tasks.lock(7, "w1")
    assert not cluster.others.lock(7, "w2")


def test_a_lock_that_may_have_been_taken_is_found_by_the_next_attempt(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    cluster.store.fail_next(2)

    with pytest.raises(MetadataUnavailableError):
        cluster.tasks.lock(7, "w1")

    assert cluster.tasks.lock(7, "w1")


def test_a_lock_that_may_not_have_been_given_back_is_nobody_elses_until_then(
    cluster: Cluster,
) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    assert cluster.tasks.lock(7, "w1")
    cluster.store.suspend()
    with pytest.raises(MetadataUnavailableError):
        cluster.tasks.unlock(7)
    cluster.store.resume()

    assert cluster.others.locked_ids() == {7}
    assert cluster.tasks.locked_ids() == set(), "so that its own process asks for it"
    assert cluster.tasks.lock(7, "w1")
    assert cluster.tasks.finish(7, 0)


def test_a_finish_whose_reply_was_lost_is_known_to_be_done(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    assert cluster.tasks.lock(7, "w1")
    cluster.store.lose_next_reply()

    assert cluster.tasks.finish(7, 0)
    assert cluster.others.locked_ids() == set()


def test_a_finish_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    assert cluster.tasks.lock(7, "w1")
    cluster.store.fail_next()

    assert cluster.tasks.finish(7, 0)
    assert cluster.others.read(7) is None


def test_putting_aside_with_a_lost_reply_is_done_once(cluster: Cluster) -> None:
    """B41: one state of its own, one report."""
    cluster.tasks.report(7, ["b1"], LOST)
    assert cluster.tasks.lock(7, "w1")
    assert cluster.tasks.note_failure(7, 0, "b1 is gone") == 1
    cluster.store.lose_next_reply(2)  # the first one made the parents

    assert cluster.tasks.mark_unrepairable(7, 1, "no replica left")

    shelved = cluster.others.read_unrepairable(7)
    assert shelved is not None
    assert (shelved.unrepairable, shelved.unrepairable_ms) == ("no replica left", 1_000)
    assert cluster.others.read(7) is None


def test_a_task_that_somebody_removed_is_finished(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    assert cluster.tasks.lock(7, "w1")
    cluster.other_store.delete("/underreplication/ledgers/00/0000/L0007")

    assert cluster.tasks.finish(7, 0)
    assert cluster.others.locked_ids() == set()


def test_a_twin_of_what_is_worked_on_goes_with_the_next_retry(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    assert cluster.tasks.lock(7, "w1")
    assert cluster.tasks.mark_unrepairable(7, 0, "why")
    path = "/underreplication/unrepairable/00/0000/L0007"
    value = cluster.store.get(path).value
    cluster.tasks.retry_unrepairable()
    cluster.store.create(path, value, make_parents=True)  # as a race would leave it

    assert cluster.tasks.report(7, ["b1"], LOST), "there is a task to work on"
    assert cluster.tasks.retry_unrepairable() == 1

    assert list(cluster.tasks.list_unrepairable()) == []
    assert list(cluster.tasks.list()) == [7]


def test_a_retry_moves_a_ledger_whose_folder_vanishes_meanwhile(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that finishes the last task of a folder removes it."""
    cluster.tasks.report(7, ["b1"], LOST)
    assert cluster.tasks.lock(7, "w1")
    assert cluster.tasks.mark_unrepairable(7, 0, "why")
    multi = cluster.store.multi
    failures = [NoNodeError("/folder", "another client removed it")]

    def carry_out(operations: Sequence[Operation]) -> None:
        if failures:
            raise failures.pop()
        multi(operations)

    monkeypatch.setattr(cluster.store, "multi", carry_out)

    assert cluster.tasks.retry_unrepairable() == 1
    assert not failures
    assert list(cluster.tasks.list()) == [7]
    assert list(cluster.tasks.list_unrepairable()) == []


def put_aside(cluster: Cluster, *ledger_ids: int) -> None:
    for ledger_id in ledger_ids:
        cluster.tasks.report(ledger_id, ["b1"], LOST)
        assert cluster.tasks.lock(ledger_id, "w1")
        assert cluster.tasks.mark_unrepairable(ledger_id, 0, "why")


def of_newer_zbk(value: bytes) -> bytes:
    fields = msgspec.msgpack.decode(value)
    return msgspec.msgpack.encode(fields | {"format_version": 99})


@pytest.mark.parametrize("spoil", [of_newer_zbk, lambda value: value[:-3]])
def test_a_task_that_cannot_be_read_keeps_no_later_ledger_put_aside(
    cluster: Cluster, spoil: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    put_aside(cluster, 3, 5, 9, 12)
    path = "/underreplication/unrepairable/00/0000/L0005"
    node = cluster.store.get(path)
    cluster.store.set(path, spoil(node.value), node.version)

    cluster.tasks.trigger()

    assert list(cluster.tasks.list()) == [3, 9, 12]
    assert list(cluster.tasks.list_unrepairable()) == [5]
    assert [getattr(one, "event", "") for one in caplog.records] == ["repair.task_unreadable"]


def test_what_a_retry_hands_out_before_it_fails_is_announced(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_aside(cluster, 3, 5)
    multi = cluster.store.multi

    def carry_out(operations: Sequence[Operation]) -> None:
        if any("0005" in one.path for one in operations):
            raise MetadataUnavailableError("store", "it is away")
        multi(operations)

    monkeypatch.setattr(cluster.store, "multi", carry_out)
    before = cluster.store.get(TASK_COUNTER).version

    with pytest.raises(MetadataUnavailableError):
        cluster.tasks.retry_unrepairable()

    assert list(cluster.tasks.list()) == [3]
    assert cluster.store.get(TASK_COUNTER).version > before


def test_a_twin_is_overwritten_by_the_next_marking(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST)
    assert cluster.tasks.lock(7, "w1")
    assert cluster.tasks.mark_unrepairable(7, 0, "first")
    path = "/underreplication/unrepairable/00/0000/L0007"
    value = cluster.store.get(path).value
    cluster.tasks.retry_unrepairable()
    cluster.store.create(path, value, make_parents=True)
    assert cluster.tasks.lock(7, "w1")

    assert cluster.tasks.mark_unrepairable(7, 0, "second")

    shelved = cluster.tasks.read_unrepairable(7)
    assert shelved is not None
    assert shelved.unrepairable == "second"


def test_a_report_of_an_unrepairable_ledger_counts_once_after_each_change_of_it(
    cluster: Cluster,
) -> None:
    """The writer of an open ledger may have replaced the lost bookies meanwhile."""
    ledgers = LedgerStore(cluster.store)
    made, seen = ledgers.create(lambda number: ledger(number, ("a", "b", "c"), last=None))
    ledger_id, lost = made.ledger_id, ["a", "b"]
    cluster.tasks.report(ledger_id, lost, LOST)
    for start, old, new in ((5, "a", "d"), (8, "d", "e")):
        cluster.tasks.lock(ledger_id, "w1")
        assert cluster.tasks.mark_unrepairable(ledger_id, 0, "open", ledger_version=seen)
        assert not cluster.tasks.report(ledger_id, lost, LOST)
        assert not cluster.tasks.report_operations(ledger_id, lost, LOST, ranges={})

        moves_on = partial(change_ensemble, first_entry_id=start, replaced={0: (old, new)})
        seen = ledgers.update(ledger_id, moves_on)[1]

        assert cluster.tasks.report_operations(ledger_id, lost, LOST, ranges={})
        assert cluster.tasks.report(ledger_id, lost, LOST)
        assert list(cluster.tasks.list()) == [ledger_id]
        assert list(cluster.tasks.list_unrepairable()) == []


def test_a_report_of_an_unrepairable_ledger_that_was_deleted_does_not_count(
    cluster: Cluster,
) -> None:
    ledgers = LedgerStore(cluster.store)
    made, seen = ledgers.create(lambda number: ledger(number, ("a", "b", "c")))
    cluster.tasks.report(made.ledger_id, ["a"], LOST)
    cluster.tasks.lock(made.ledger_id, "w1")
    assert cluster.tasks.mark_unrepairable(made.ledger_id, 0, "why", ledger_version=seen)

    ledgers.delete(made.ledger_id)

    assert not cluster.tasks.report(made.ledger_id, ["a"], LOST)


def test_damage_among_the_tasks_is_said(cluster: Cluster) -> None:
    cluster.store.create("/underreplication/ledgers/nonsense")
    cluster.store.create("/underreplication/locks/nonsense")

    with pytest.raises(CorruptRecordError):
        list(cluster.tasks.list())
    with pytest.raises(CorruptRecordError):
        cluster.tasks.locked_ids()


def test_an_impossible_delay_is_refused(cluster: Cluster) -> None:
    for delay_ms in (-1, LOST_BOOKIE_DELAY_MAX_MS + 1):
        with pytest.raises(InvalidOptionError):
            cluster.tasks.set_lost_bookie_delay_ms(delay_ms)


def test_a_report_is_noted_also_where_nobody_can_be_told(cluster: Cluster) -> None:
    cluster.tasks.report(7, ["b1"], LOST, is_quiet=True)
    cluster.store.fail_next()

    cluster.tasks.announce()

    assert list(cluster.others.list()) == [7]


def test_a_damaged_counter_of_news_fails_no_report_and_is_counted_anew(cluster: Cluster) -> None:
    news: list[None] = []
    watch = cluster.others.watch_tasks(lambda: news.append(None))
    cluster.other_store.create(TASK_COUNTER, b"nonsense", make_parents=True)
    cluster.other_store.settle()
    before = len(news)

    assert cluster.tasks.report(7, ["b1"], LOST)
    cluster.other_store.settle()

    assert len(news) == before + 1
    assert decode(AuditCounter, cluster.store.get(TASK_COUNTER).value, TASK_COUNTER).count == 1
    watch.cancel()
