"""The index against slow twins: what is put, flushed and dropped is found the same."""

from array import array
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.ledger_caches import KEY, PAGE_MEMORY, open_cache, put
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import NoSuchLedgerError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.index.index_flush import IndexFlush
from zbk.storage.index.index_handle import IndexHandle
from zbk.storage.index.ledger_cache import LedgerCache

LEDGERS = (1, 2, 3)
ID_MAX = 2600

ledgers = st.sampled_from(LEDGERS)
ids = st.integers(0, ID_MAX)


class IndexMachine(RuleBasedStateMachine):
    """Twin: for each ledger a dict of locations. Flushes take their steps between other changes."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.now: dict[int, dict[int, int]] = {}
        self.flush: IndexFlush | None = None
        self.number = 0
        self.open()

    def open(self) -> None:
        self.kept: dict[int, IndexHandle] = {}
        self.cache, _ = open_cache(self.disk, memory_size_max=4 * PAGE_MEMORY, ledger_count_max=2)

    def put(self, ledger_id: int, wanted: "range | array[int]") -> None:
        self.cache.set_ledger_key(ledger_id, KEY, LedgerType.PD_JOURNAL)
        locations = array("Q", range(self.number + 1, self.number + 1 + len(wanted)))
        self.number += len(wanted)
        if ledger_id not in self.kept:
            self.kept[ledger_id] = self.cache.handle(ledger_id)
        self.kept[ledger_id].set_locations(wanted, locations)  # its header may be evicted since
        self.now.setdefault(ledger_id, {}).update(zip(wanted, locations, strict=True))

    @rule(ledger_id=ledgers, count=st.integers(1, 1500))
    def append(self, ledger_id: int, count: int) -> None:
        first = max(self.now.get(ledger_id, {-1: 0})) + 1
        if first + count <= ID_MAX:
            self.put(ledger_id, range(first, first + count))

    @rule(ledger_id=ledgers, first=ids, count=st.integers(1, 40))
    def put_anywhere(self, ledger_id: int, first: int, count: int) -> None:
        self.put(ledger_id, range(first, first + count))

    @rule(ledger_id=ledgers, back=st.integers(0, 5))
    def put_again(self, ledger_id: int, back: int) -> None:
        own = self.now.get(ledger_id)
        if own is not None:
            first = max(0, max(own) - back)
            self.put(ledger_id, range(first, first + 1))

    @rule(ledger_id=ledgers, wanted=st.sets(ids, min_size=1, max_size=8))
    def put_scattered(self, ledger_id: int, wanted: set[int]) -> None:
        self.put(ledger_id, array("q", sorted(wanted)))

    @rule(ledger_id=ledgers, first=ids, last=ids, is_kept=st.booleans())
    def read(self, ledger_id: int, first: int, last: int, is_kept: bool) -> None:
        if first <= last:
            self.compare(ledger_id, range(first, last + 1), is_kept)

    @rule(ledger_id=ledgers, wanted=st.sets(ids, min_size=1, max_size=8), is_kept=st.booleans())
    def read_scattered(self, ledger_id: int, wanted: set[int], is_kept: bool) -> None:
        self.compare(ledger_id, array("q", sorted(wanted)), is_kept)

    def compare(self, ledger_id: int, wanted: "range | array[int]", is_kept: bool) -> None:
        kept = self.kept.get(ledger_id) if is_kept else None
        index = kept or self.cache.handle(ledger_id)
        own = self.now.get(ledger_id)
        if own is None:
            with pytest.raises(NoSuchLedgerError):
                index.locations_of(wanted)
            return
        found = index.locations_of(wanted)
        assert found.tolist() == [own.get(one, 0) for one in wanted]

    @rule(ledger_id=ledgers, first=ids)
    def walk(self, ledger_id: int, first: int) -> None:
        own = self.now.get(ledger_id)
        if own is not None:
            found = self.cache.handle(ledger_id).next_entry_id(first)
            assert found == min((one for one in own if one >= first), default=None)
            last = self.cache.handle(ledger_id).contiguous_until(first - 1)
            while first in own:
                first += 1
            assert last == first - 1

    @precondition(lambda self: self.flush is None)
    @rule()
    def begin_flush(self) -> None:
        self.flush = self.cache.begin_flush()

    @precondition(lambda self: self.flush is not None)
    @rule(is_all=st.booleans())
    def go_on_with_flush(self, is_all: bool) -> None:
        assert self.flush is not None
        self.flush.sync_entry_logs()
        self.flush.write()
        if is_all:
            self.flush.apply()
            self.cache.end_flush(self.flush)
            self.flush = None

    @rule(ledger_id=ledgers)
    def delete(self, ledger_id: int) -> None:
        self.cache.delete(ledger_id)
        self.now.pop(ledger_id, None)

    @precondition(lambda self: self.flush is None)
    @rule(seed=st.integers(0, 9))
    def lose_power(self, seed: int) -> None:
        self.cache.flush()
        self.disk = self.disk.crash(Random(seed))
        self.open()
        assert self.cache.ledgers() == sorted(self.now)

    @invariant()
    def sizes_are_kept(self) -> None:
        self.cache.pages._check()
        self.cache.headers._check()


def test_the_flush_file_has_nothing_of_a_ledger_that_was_deleted_before_it_was_written() -> None:
    """A later ledger with its id, if there were one, would get the old page after a crash."""
    state = IndexMachine()
    state.put_scattered(3, {0})
    state.begin_flush()
    state.go_on_with_flush(is_all=True)
    state.append(3, 1)
    state.begin_flush()
    state.delete(3)
    state.go_on_with_flush(is_all=True)
    state.put_anywhere(3, 0, 1)

    state.lose_power(0)

    state.read_scattered(3, {0}, is_kept=False)


IndexMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestIndexMachine = IndexMachine.TestCase


class CacheMachine(RuleBasedStateMachine):
    """Random puts, looks, flushes and restarts with room for one page; the twin is a dict."""

    @initialize()
    def begin(self) -> None:
        self.disk = SimulatedDisk()
        self.cache, _ = self._open()
        self.twin: dict[int, dict[int, int]] = {}
        self.fenced: set[int] = set()
        self.number = 0

    def _open(self) -> tuple[LedgerCache, object]:
        return open_cache(self.disk, memory_size_max=PAGE_MEMORY, ledger_count_max=1, open_max=1)

    @rule(
        ledger_id=st.integers(0, 2),
        first=st.sampled_from([0, 1000, 1023, 5000]),
        count=st.integers(1, 1100),
        step=st.integers(1, 3),
    )
    def put(self, ledger_id: int, first: int, count: int, step: int) -> None:
        self.number += 1
        entries = {e: self.number << 34 | e + 1 for e in range(first, first + count * step, step)}
        put(self.cache, ledger_id, entries)
        self.twin.setdefault(ledger_id, {}).update(entries)

    @rule(ledger_id=st.integers(0, 2), first=st.integers(0, 6000), count=st.integers(1, 3000))
    def look(self, ledger_id: int, first: int, count: int) -> None:
        if ledger_id not in self.twin:
            assert self.cache.info(ledger_id) is None
            return
        twin = self.twin[ledger_id]
        found = self.cache.handle(ledger_id).locations_of(range(first, first + count))
        assert found.tolist() == [twin.get(e, 0) for e in range(first, first + count)]
        assert self.cache.handle(ledger_id).last_entry_id == max(twin)
        end = next(e for e in range(first, first + 20_000) if e not in twin)
        assert self.cache.handle(ledger_id).contiguous_until(first - 1) == end - 1
        wanted = min((e for e in twin if e >= first), default=None)
        assert self.cache.handle(ledger_id).next_entry_id(first) == wanted

    @rule(ledger_id=st.integers(0, 2))
    def fence(self, ledger_id: int) -> None:
        if ledger_id in self.twin:
            self.cache.handle(ledger_id).set_fenced()
            self.fenced.add(ledger_id)

    @rule(ledger_id=st.integers(0, 2))
    def delete(self, ledger_id: int) -> None:
        self.cache.delete(ledger_id)
        self.twin.pop(ledger_id, None)
        self.fenced.discard(ledger_id)

    @rule(seed=st.integers(0, 2**32))
    def flush_and_restart(self, seed: int) -> None:
        self.cache.flush()
        self.disk.crash(Random(seed))
        self.cache, _ = self._open()
        assert self.cache.ledgers() == sorted(self.twin)
        for ledger_id in self.twin:
            info = self.cache.info(ledger_id)
            assert info is not None
            assert info.is_fenced == (ledger_id in self.fenced)


CacheMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)


TestCacheMachine = CacheMachine.TestCase
