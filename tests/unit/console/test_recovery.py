"""The page about recovery: its tasks, part by part."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.auditor.repair_backlog import RepairBacklog
from zbk.console.collector import Collector
from zbk.console.history import History
from zbk.console.recovery import TASK_COUNT_MAX, recovery_page
from zbk.errors import InvalidOptionError
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore

LEDGER_IDS = [*range(60), *range(9_990, 10_040), 2**40, 2**63 - 1]


@pytest.fixture
def tasks() -> Iterator[UnderreplicationStore]:
    store = MemoryStore(MemoryTree())
    initialise(store)
    tasks = UnderreplicationStore(store)
    for ledger_id in LEDGER_IDS:
        tasks.report(ledger_id, ["b-1"], MissingReason.LOST, is_quiet=True)
    yield tasks
    store.close()


def page(tasks: UnderreplicationStore, **query: str) -> dict[str, Any]:
    collector = SimpleNamespace(
        facts=None, backlog=RepairBacklog(), history=History(),
        connection=lambda: SimpleNamespace(tasks=tasks),
    )  # fmt: skip
    return recovery_page(cast("Collector", collector), query)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [one["ledger_id"] for one in rows]


def test_the_parts_of_the_list_have_each_task_once(tasks: UnderreplicationStore) -> None:
    first = page(tasks)
    assert ids(first["tasks"]) == LEDGER_IDS[:TASK_COUNT_MAX]
    assert first["is_first"]
    second = page(tasks, after=str(first["next_after"]))
    assert ids(second["tasks"]) == LEDGER_IDS[TASK_COUNT_MAX:]
    assert (second["next_after"], second["is_first"]) == (None, False)
    assert page(tasks, after=str(2**63 - 1))["tasks"] == []
    with pytest.raises(InvalidOptionError):
        page(tasks, after="x")


def test_unrepairable_tasks_are_a_list_of_their_own(tasks: UnderreplicationStore) -> None:
    for ledger_id in LEDGER_IDS[: TASK_COUNT_MAX + 1]:
        assert tasks.lock(ledger_id, "worker")
        found = tasks.read(ledger_id)
        assert found is not None
        assert tasks.mark_unrepairable(ledger_id, found[1], "its only bookie is gone")
    first = page(tasks)
    assert ids(first["unrepairable"]) == LEDGER_IDS[:TASK_COUNT_MAX]
    row = first["unrepairable"][0]
    assert (row["state"], row["why"]) == ("unrepairable", "its only bookie is gone")
    assert ids(first["tasks"]) == LEDGER_IDS[TASK_COUNT_MAX + 1 :]
    second = page(tasks, unrepairable_after=str(first["next_unrepairable"]))
    assert ids(second["unrepairable"]) == [LEDGER_IDS[TASK_COUNT_MAX]]
