"""Two lanes of one worker and the lock of one ledger, while its session is made anew."""

from collections.abc import Callable, Sequence

import pytest

from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.errors import MetadataUnavailableError
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.store import Operation
from zbk.protocol.repair.underreplicated import MissingReason


class InterruptedStore(MemoryStore):
    """Does something else in the middle of the next change, which comes to nothing."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.meanwhile: Callable[[], None] | None = None

    def multi(self, operations: Sequence[Operation]) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
            raise MetadataUnavailableError(self.address, "no answer")
        super().multi(operations)


class SilentStore(MemoryStore):
    """Makes none of the next ``silent_count`` changes, and gives no answer to them."""

    silent_count = 0

    def multi(self, operations: Sequence[Operation]) -> None:
        if self.silent_count:
            self.silent_count -= 1
            raise MetadataUnavailableError(self.address, "no answer")
        super().multi(operations)


@pytest.mark.parametrize("silent_count", [1, 4, 31])
def test_a_lock_is_given_back_after_many_changes_without_an_answer(silent_count: int) -> None:
    store = SilentStore(MemoryTree("locks"))
    initialise(store)
    tasks = UnderreplicationStore(store)
    assert tasks.lock(7, "a lane")

    store.silent_count = silent_count
    tasks.unlock(7)

    assert tasks.locked_ids() == set()
    store.close()


def test_a_task_that_gets_no_answer_to_its_end_is_not_a_conflict() -> None:
    store = SilentStore(MemoryTree("locks"))
    initialise(store)
    tasks = UnderreplicationStore(store)
    tasks.report(7, ["b1"], MissingReason.LOST)
    assert tasks.lock(7, "a lane")
    found = tasks.read(7)
    assert found is not None

    store.silent_count = 1_000
    with pytest.raises(MetadataUnavailableError):
        tasks.finish(7, found[1])
    store.silent_count = 0

    assert tasks.finish(7, found[1])
    store.close()


def test_a_lock_that_is_being_given_back_is_not_taken_before_that_is_over() -> None:
    """F19: the one who drops it asks once more, and would remove the lock of the next one."""
    store = InterruptedStore(MemoryTree("locks"))
    initialise(store)
    tasks = UnderreplicationStore(store)
    assert tasks.lock(7, "one lane")
    taken: list[bool] = []

    def another_lane() -> None:
        store.expire_session()
        assert tasks.locked_ids() == set()
        taken.append(tasks.lock(7, "another lane"))

    store.meanwhile = another_lane
    tasks.unlock(7)

    assert taken == [False]
    assert tasks.lock(7, "another lane")
    assert tasks.holds(7)
    store.close()


def test_a_lock_that_two_lanes_want_at_once_is_given_back() -> None:
    """Seed 310: what one lane took, the other one, which found somebody else's lock, forgot."""
    tree = MemoryTree("locks")
    store, other_store = HookedStore(tree), MemoryStore(tree)
    initialise(store)
    tasks, others = UnderreplicationStore(store), UnderreplicationStore(other_store)
    assert others.lock(7, "another worker")
    taken: list[bool] = []

    def another_lane() -> None:
        taken.append(tasks.lock(7, "another lane"))
        others.unlock(7)

    store.interrupt(another_lane, "multi")
    assert tasks.lock(7, "one lane")
    assert taken == [False]
    assert tasks.holds(7)
    tasks.unlock(7)

    assert others.lock(7, "another worker"), "it is free again"
    store.close()
    other_store.close()
