"""Tasks of ledgers that are not whole, on every body of the metadata port."""

from functools import partial

import pytest

from tests.support.at_once import run_at_once
from tests.support.metadata_bodies import Body
from tests.support.recorder import Recorder
from tests.support.waiting import wait_until
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.store import MetadataStore

LOST = MissingReason.LOST
DAMAGED = MissingReason.DAMAGED
NOT_WRITTEN = MissingReason.NOT_WRITTEN
UNCHECKED = MissingReason.UNCHECKED


@pytest.fixture
def tasks(store: MetadataStore) -> UnderreplicationStore:
    initialise(store)
    return UnderreplicationStore(store)


@pytest.fixture
def others(other: MetadataStore, tasks: UnderreplicationStore) -> UnderreplicationStore:
    assert list(tasks.list()) == []
    return UnderreplicationStore(other)


def version_of(tasks: UnderreplicationStore, ledger_id: int) -> int:
    found = tasks.read(ledger_id)
    assert found is not None
    return found[1]


def test_reports_make_one_task_and_merge(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    assert tasks.report(7, ["b2", "b1"], LOST)
    assert others.report(7, ["b2", "b3"], DAMAGED)

    found = tasks.read(7)
    assert found is not None
    task, version = found
    assert task.missing == {"b1": (LOST,), "b2": (LOST, DAMAGED), "b3": (DAMAGED,)}
    assert (task.ledger_id, task.report_count, version) == (7, 2, 1)


def test_reports_merge_the_entries_that_they_name(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    assert tasks.report(7, ["b1", "b2"], NOT_WRITTEN, ranges={"b1": [(5, 9)]})
    assert others.report(7, ["b1"], UNCHECKED, ranges={"b1": [(0, 1), (10, 2**40 - 1)]})
    assert tasks.report(7, ["b2"], LOST)

    found = others.read(7)
    assert found is not None
    task, _version = found
    assert task.missing == {"b1": (NOT_WRITTEN, UNCHECKED), "b2": (LOST, NOT_WRITTEN)}
    assert task.ranges == {"b1": ((0, 1), (5, 2**40 - 1))}


def test_entries_that_are_news_hand_an_unrepairable_ledger_out_again(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    tasks.report(7, ["b1"], NOT_WRITTEN, ranges={"b1": [(5, 9)]})
    assert tasks.lock(7, "w1")
    assert tasks.mark_unrepairable(7, version_of(tasks, 7), "no replica is left")

    assert not others.report(7, ["b1"], NOT_WRITTEN, ranges={"b1": [(6, 6)]})
    assert list(others.list()) == []
    assert others.report(7, ["b1"], NOT_WRITTEN, ranges={"b1": [(20, 20)]})

    found = tasks.read(7)
    assert found is not None
    assert found[0].ranges == {"b1": ((5, 9), (20, 20))}


def test_concurrent_reports_are_all_kept(body: Body, tasks: UnderreplicationStore) -> None:
    """B42: many failures at once; none is lost."""

    def report(own: UnderreplicationStore, number: int) -> None:
        for ledger_id in range(3):
            own.report(ledger_id, [f"b{number}"], LOST)

    run_at_once([partial(report, UnderreplicationStore(body.open()), n) for n in range(4)])

    for ledger_id in range(3):
        found = tasks.read(ledger_id)
        assert found is not None
        assert list(found[0].missing) == ["b0", "b1", "b2", "b3"]


def test_tasks_are_listed_by_id_in_any_number_of_nodes(tasks: UnderreplicationStore) -> None:
    ids = [0, 1, 9_999, 10_000, 2**31, 2**40 + 7]
    for ledger_id in reversed(ids):
        tasks.report(ledger_id, ["b1"], LOST)

    assert list(tasks.list()) == ids
    assert list(tasks.list(after=9_999)) == ids[3:]


def test_a_finished_task_leaves_nothing(
    store: MetadataStore, tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    tasks.report(7, ["b1"], LOST)
    assert others.lock(7, "w1")

    assert others.finish(7, version_of(others, 7))

    assert tasks.read(7) is None
    assert store.children("/underreplication/ledgers") == []
    assert store.children("/underreplication/locks") == []


def test_a_report_while_a_task_is_worked_on_keeps_it(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    """B42: a new failure between taking a task and ending it keeps the task."""
    tasks.report(7, ["b1"], LOST)
    assert others.lock(7, "w1")
    version = version_of(others, 7)
    tasks.report(7, ["b1"], LOST)  # the same bookie, lost once more

    assert not others.finish(7, version)
    assert not others.mark_unrepairable(7, version, "no replica")
    assert others.note_failure(7, version, "b2 did not answer") is None
    assert others.holds(7), "who was too late goes on with the news"
    assert others.finish(7, version_of(others, 7))


def test_progress_does_not_hide_or_make_news(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    tasks.report(7, ["b1"], LOST)
    assert others.lock(7, "w1")
    version = version_of(others, 7)

    assert others.note_progress(7, 10, 40)
    assert others.note_progress(7, 20, 40)

    (progress,) = tasks.progress().values()
    assert (progress.owner, progress.copied_count, progress.to_copy_count) == ("w1", 20, 40)
    assert others.finish(7, version)
    assert tasks.progress() == {}


def test_one_lock_a_ledger(tasks: UnderreplicationStore, others: UnderreplicationStore) -> None:
    tasks.report(7, ["b1"], LOST)

    assert tasks.lock(7, "w1")
    assert not others.lock(7, "w2")
    assert not tasks.lock(7, "w1 again"), "nor twice within one process"
    assert others.locked() == {7: "w1"}
    assert others.locked_ids() == {7}

    tasks.unlock(7)
    tasks.unlock(7)
    assert others.lock(7, "w2")
    assert tasks.locked() == {7: "w2"}


def test_of_many_who_lock_one_does(body: Body, tasks: UnderreplicationStore) -> None:
    tasks.report(7, ["b1"], LOST)
    got: list[int] = []

    def lock(own: UnderreplicationStore, number: int) -> None:
        if own.lock(7, f"w{number}"):
            got.append(number)

    run_at_once([partial(lock, UnderreplicationStore(body.open()), n) for n in range(6)])

    assert [f"w{number}" for number in got] == list(tasks.locked().values())


def test_who_has_no_lock_ends_no_task(tasks: UnderreplicationStore) -> None:
    tasks.report(7, ["b1"], LOST)

    assert not tasks.finish(7, 0)
    assert not tasks.mark_unrepairable(7, 0, "why")
    assert not tasks.note_progress(7, 1, 2)
    assert tasks.read(7) is not None


def test_the_lock_goes_with_the_session(
    body: Body,
    other: MetadataStore,
    tasks: UnderreplicationStore,
    others: UnderreplicationStore,
) -> None:
    tasks.report(7, ["b1"], LOST)
    assert others.lock(7, "w1")

    body.expire(other)

    wait_until(lambda: tasks.lock(7, "w2"), 30.0, "the lock of the dead session to go")
    assert not others.holds(7)
    assert not others.note_progress(7, 1, 2)


def test_a_dead_session_does_not_end_a_task_of_the_same_version(
    body: Body,
    other: MetadataStore,
    tasks: UnderreplicationStore,
    others: UnderreplicationStore,
) -> None:
    """B42: finished by somebody else and reported again, the task has the version of old."""
    tasks.report(7, ["b1"], LOST)
    assert others.lock(7, "w1")
    version = version_of(others, 7)
    body.expire(other)
    wait_until(lambda: tasks.lock(7, "w2"), 30.0, "the lock of the dead session to go")
    assert tasks.finish(7, version)
    tasks.report(7, ["b2"], LOST)
    assert version_of(tasks, 7) == version

    wait_until(lambda: not others.holds(7), 30.0, "the store to have a session again")
    assert not others.finish(7, version)
    assert not others.mark_unrepairable(7, version, "why")
    assert tasks.read(7) is not None


def test_failures_are_counted_until_there_is_news(tasks: UnderreplicationStore) -> None:
    tasks.report(7, ["b1"], LOST)
    assert tasks.lock(7, "w1")

    assert tasks.note_failure(7, 0, "b2 did not answer") == 1
    assert tasks.note_failure(7, 1, "b2 did not answer") == 2
    found = tasks.read(7)
    assert found is not None
    assert (found[0].failure_count, found[0].failure) == (2, "b2 did not answer")

    tasks.report(7, ["b1"], LOST)  # as each check of the bookies does
    found = tasks.read(7)
    assert found is not None
    assert (found[0].report_count, found[0].failure_count) == (2, 2)

    tasks.report(7, ["b3"], LOST)
    found = tasks.read(7)
    assert found is not None
    assert found[0].failure_count == 0


def test_what_nobody_can_repair_is_not_handed_out_again(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    """B41: a ledger whose last replica is gone is reported once, and tried no more."""
    tasks.report(7, ["b1"], LOST)
    assert others.lock(7, "w1")

    assert others.mark_unrepairable(7, 0, "no replica of entries 0 to 9 is left")

    assert list(tasks.list()) == []
    assert tasks.locked_ids() == set()
    assert list(tasks.list_unrepairable()) == [7]
    shelved = tasks.read_unrepairable(7)
    assert shelved is not None
    assert shelved.unrepairable == "no replica of entries 0 to 9 is left"
    assert not tasks.report(7, ["b1"], LOST), "the same again changes nothing"
    assert list(tasks.list()) == []


def test_news_of_what_nobody_could_repair_hands_it_out_again(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    tasks.report(7, ["b1"], LOST)
    assert others.lock(7, "w1")
    others.mark_unrepairable(7, 0, "why")

    assert tasks.report(7, ["b2"], DAMAGED)

    assert list(tasks.list_unrepairable()) == []
    found = tasks.read(7)
    assert found is not None
    assert found[0].missing == {"b1": (LOST,), "b2": (DAMAGED,)}
    assert found[0].unrepairable == ""


def test_a_trigger_hands_out_what_nobody_could_repair(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    for ledger_id in (7, 8):
        tasks.report(ledger_id, ["b1"], LOST)
        assert others.lock(ledger_id, "w1")
        others.mark_unrepairable(ledger_id, 0, "why")

    tasks.trigger()

    assert list(tasks.list()) == [7, 8]
    assert list(tasks.list_unrepairable()) == []
    assert others.lock(7, "w1")


def test_a_watch_tells_of_new_tasks(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    told: Recorder[None] = Recorder()
    watch = tasks.watch_tasks(lambda: told(None))
    told.wait_count(1)

    others.report(7, ["b1"], LOST)
    told.wait_count(2)
    others.report(8, ["b1"], LOST, is_quiet=True)
    others.announce()
    told.wait_count(3)

    watch.cancel()


def test_autorecovery_is_switched_off_and_on(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    told: Recorder[bool] = Recorder()
    watch = others.watch_enabled(told)
    told.wait_last(item=True)

    tasks.disable()
    tasks.disable()
    told.wait_last(item=False)
    assert not others.is_enabled()
    assert others.report(7, ["b1"], LOST), "reports are taken all the same"
    tasks.enable()
    tasks.enable()
    told.wait_last(item=True)

    watch.cancel()


def test_a_trigger_is_heard(tasks: UnderreplicationStore, others: UnderreplicationStore) -> None:
    told: Recorder[int] = Recorder()
    watch = others.watch_trigger(told)
    told.wait_count(1)

    tasks.trigger_audit()
    told.wait_count(2)
    tasks.trigger_audit()
    numbers = told.wait_count(3)

    assert numbers == sorted(set(numbers)), "each trigger has a larger number"
    watch.cancel()


def test_the_delay_is_kept_and_told(
    tasks: UnderreplicationStore, others: UnderreplicationStore
) -> None:
    told: Recorder[int | None] = Recorder()
    watch = others.watch_lost_bookie_delay(told)
    told.wait_last(None)

    tasks.set_lost_bookie_delay_ms(30_000)
    told.wait_last(30_000)
    assert others.lost_bookie_delay_ms() == 30_000
    tasks.set_lost_bookie_delay_ms(0)
    told.wait_last(0)
    tasks.set_lost_bookie_delay_ms(None)
    told.wait_last(None)

    watch.cancel()
