"""Loads, aborts, expiries, drops and collections in any order, replies lost, against a slow twin.

The twin knows each load by the ledgers that it brought and each version by its loads, and nothing
of manifests, nodes and compare-and-swap. What the store may decide by itself is whether a load
whose time is over was aborted; the twin believes what it hears first, and then nothing else.
"""

from enum import Enum
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.support.fake_data_sets import SCHEMA, Clock, FakeDataSetClient, write_ledger
from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryTree
from zbk.client.dataset.datasets import DataSets, LoadTicket
from zbk.errors import (
    DataSetConflictError,
    LoadAbortedError,
    MetadataUnavailableError,
    NoSuchDataSetError,
)
from zbk.metadata.records.ledgers import initialise
from zbk.protocol.dataset.dataset import LoadKind
from zbk.protocol.dataset.manifest import DataLedger

NAME = "events"
TTL_MS = 100


class End(Enum):
    """How a load ended."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    DROPPED = "dropped"  # with its data set


class TwinLoad:
    """A load as the twin knows it."""

    def __init__(self, ticket: LoadTicket, batch: tuple[str, int] | None, expires_ms: int) -> None:
        self.ticket = ticket
        self.batch = batch
        self.expires_ms = expires_ms
        self.ledgers: list[DataLedger] = []  # what is to be committed
        self.failed: list[DataLedger] = []
        self.end = End.OPEN


class DataSetMachine(RuleBasedStateMachine):
    """Two clients work on one data set."""

    loads = Bundle("loads")

    def __init__(self) -> None:
        super().__init__()
        self.tree = MemoryTree("machine")
        self.stores = [HookedStore(self.tree) for _ in range(3)]
        initialise(self.stores[2])
        payloads: dict[int, list[bytes]] = {}
        self.clock = Clock(1_000)
        self.clients = [FakeDataSetClient(store, payloads) for store in self.stores]
        self.by: list[DataSets] = [client.data_sets(self.clock) for client in self.clients]
        self.looker = self.by[2]
        self.known: list[TwinLoad] = []
        self.versions: dict[int, list[TwinLoad]] = {}
        self.next_version = 1
        self.batches: dict[str, int] = {}
        self.data_set_id = ""

    def teardown(self) -> None:
        for store in self.stores:
            store.close()

    @property
    def current(self) -> int:
        return max(self.versions, default=0)

    # ------------------------------------------------------------------ what happens

    @initialize()
    def make(self) -> None:
        self.begin(0, LoadKind.APPEND, None, fault=None)

    @rule(
        target=loads,
        by=st.integers(0, 1),
        kind=st.sampled_from(LoadKind),
        batch=st.none() | st.tuples(st.sampled_from("st"), st.integers(0, 3)),
        fault=st.none() | st.tuples(st.booleans(), st.integers(0, 3)),
    )
    def begin(
        self,
        by: int,
        kind: LoadKind,
        batch: tuple[str, int] | None,
        fault: tuple[bool, int] | None,
    ) -> TwinLoad | None:
        options: dict[str, Any] = (
            {} if batch is None else {"stream": batch[0], "batch_id": batch[1]}
        )
        self._inject(by, fault)
        try:
            ticket = self.by[by].begin(NAME, kind, ttl_ms=TTL_MS, **options)
        except MetadataUnavailableError:
            if not self.data_set_id and self.looker.list():  # it came as far as making it
                self.data_set_id = self.looker.history(NAME).data_set_id
            return None
        finally:
            self._heal(by)
        if ticket.data_set_id != self.data_set_id:
            assert not self.data_set_id, "a data set is made anew only when it was dropped"
            self.data_set_id = ticket.data_set_id
        assert ticket.base_version == self.current
        load = TwinLoad(ticket, batch, self.clock.now_ms + TTL_MS)
        self.known.append(load)
        return load

    @rule(load=loads, by=st.integers(0, 1), is_failed=st.booleans())
    def write(self, load: TwinLoad | None, by: int, is_failed: bool) -> None:
        """One task attempt; a task may come late, when its load has ended."""
        if load is None:
            return
        ledger = write_ledger(self.by[by], load.ticket, attempt=int(is_failed))
        if load.end is End.OPEN and not is_failed:
            load.ledgers.append(ledger)
        else:
            load.failed.append(ledger)

    @rule(
        load=loads,
        by=st.integers(0, 1),
        fault=st.none() | st.tuples(st.booleans(), st.integers(0, 12)),
    )
    def commit(self, load: TwinLoad | None, by: int, fault: tuple[bool, int] | None) -> None:
        if load is None:
            return
        self._inject(by, fault)
        try:
            self._commit_once(load, by)
        except MetadataUnavailableError:
            self._heal(by)
            self._commit_once(load, 1 - by)  # somebody asks what became of it
        finally:
            self._heal(by)

    @rule(
        load=loads,
        by=st.integers(0, 1),
        fault=st.none() | st.tuples(st.booleans(), st.integers(0, 4)),
    )
    def abort(self, load: TwinLoad | None, by: int, fault: tuple[bool, int] | None) -> None:
        if load is None:
            return
        self._inject(by, fault)
        try:
            aborted = self.by[by].abort(load.ticket)
        except MetadataUnavailableError:
            self._heal(by)
            aborted = self.by[1 - by].abort(load.ticket)
        finally:
            self._heal(by)
        if load.end is End.OPEN:
            if aborted.state is None:
                assert self._is_expired(load), "nobody else forgets a load"
            load.end = End.ABORTED
        elif aborted.state is not None:
            assert str(aborted.state).lower() == load.end.value

    @rule(load=consumes(loads))
    def lose_sight(self, load: TwinLoad | None) -> None:
        """Its driver is killed: nobody speaks of it again."""

    @rule(ms=st.integers(1, TTL_MS))
    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms

    @rule(by=st.integers(0, 1))
    def collect(self, by: int) -> None:
        try:
            self.by[by].collect(NAME)
        except NoSuchDataSetError:
            assert not self.data_set_id
            return
        alive = self.clients[2].ledger_ids()
        for load in self.known:
            if load.end is End.OPEN and self._is_expired(load):
                load.end = End.ABORTED
            if load.end is End.ABORTED and load.ticket.data_set_id == self.data_set_id:
                assert not alive & {one.ledger_id for one in (*load.ledgers, *load.failed)}

    @rule()
    def collect_all(self) -> None:
        for _ in self.by[0].collect_all():
            continue
        alive = self.clients[2].ledger_ids()
        for load in self.known:
            if load.end is End.OPEN and self._is_expired(load):
                load.end = End.ABORTED
            if load.end in (End.ABORTED, End.DROPPED):
                assert not alive & {one.ledger_id for one in (*load.ledgers, *load.failed)}

    @rule(by=st.integers(0, 1), choice=st.integers(0, 9), fault=st.booleans())
    def drop_version(self, by: int, choice: int, fault: bool) -> None:
        old = sorted(self.versions)[:-1]
        if not old:
            return
        number = old[choice % len(old)]
        if fault:
            self.stores[by].lose_next_reply()
        self.by[by].drop_version(NAME, number)
        self._heal(by)
        del self.versions[number]

    @rule(by=st.integers(0, 1), fault=st.booleans(), luck=st.integers(0, 3))
    def drop(self, by: int, fault: bool, luck: int) -> None:
        if not self.data_set_id or luck:
            return
        if fault:
            self.stores[by].lose_next_reply()
        try:
            self.by[by].drop(NAME)
        except MetadataUnavailableError:
            assert fault  # a forgotten load's reply was lost: nothing was dropped
            self.by[by].drop(NAME)
        self._heal(by)
        for load in self.known:
            if load.ticket.data_set_id == self.data_set_id:
                load.end = End.DROPPED
        self.versions, self.batches, self.next_version = {}, {}, 1
        self.data_set_id = ""

    # ------------------------------------------------------------------ what is always so

    @invariant()
    def versions_are_whole_and_nothing_else_is_visible(self) -> None:
        if not self.data_set_id:
            with pytest.raises(NoSuchDataSetError):
                self.looker.history(NAME)
            return
        data_set = self.looker.history(NAME)
        assert [one.version for one in data_set.versions] == sorted(self.versions)
        assert data_set.next_version == self.next_version
        for number, loads in self.versions.items():
            expected = [one.ledger_id for load in loads for one in load.ledgers]
            snapshot = self.looker.read(NAME, number)
            assert [one.ledger_id for one in snapshot.ledgers] == expected
            assert snapshot.version.row_count == len(expected)

    @invariant()
    def what_is_wanted_is_there(self) -> None:
        alive = self.clients[2].ledger_ids()
        listed = {
            one.ledger_id for loads in self.versions.values() for x in loads for one in x.ledgers
        }
        assert listed <= alive
        for load in self.known:
            if load.end is End.OPEN and not self._is_expired(load):
                assert {one.ledger_id for one in (*load.ledgers, *load.failed)} <= alive

    # ------------------------------------------------------------------ private

    def _commit_once(self, load: TwinLoad, by: int) -> None:
        was_open = load.end is End.OPEN
        has_batch = load.batch is not None and self.batches.get(load.batch[0], -1) >= load.batch[1]
        is_overtaken = (
            load.ticket.kind is LoadKind.OVERWRITE and load.ticket.base_version != self.current
        )
        try:
            data_set = self.by[by].commit(load.ticket, SCHEMA, load.ledgers)
        except NoSuchDataSetError:
            assert load.end is End.DROPPED
            return
        except LoadAbortedError:
            assert load.end is End.ABORTED or (was_open and self._is_expired(load))
            load.end = End.ABORTED
            return
        except DataSetConflictError:
            if was_open and is_overtaken and not has_batch:
                return  # it is as open as it was
            assert self._is_expired(load), "only those are forgotten"
            if was_open:
                load.end = End.ABORTED
            return
        assert data_set.data_set_id == load.ticket.data_set_id
        if load.end is not End.OPEN:
            assert load.end is End.COMMITTED or has_batch
            return
        if has_batch:
            load.end = End.ABORTED
            return
        assert not is_overtaken, "it would hide what was committed since"
        before = self.versions.get(self.current, [])
        is_append = load.ticket.kind is LoadKind.APPEND
        self.versions[self.next_version] = [*before, load] if is_append else [load]
        self.next_version += 1
        if load.batch is not None:
            self.batches[load.batch[0]] = load.batch[1]
        load.end = End.COMMITTED

    def _is_expired(self, load: TwinLoad) -> bool:
        return self.clock.now_ms >= load.expires_ms

    def _inject(self, by: int, fault: tuple[bool, int] | None) -> None:
        """Make one of the next calls fail: its reply is lost, or it is not made."""
        if fault is not None:
            is_lost, skip_count = fault
            store = self.stores[by]
            act = store.lose_next_reply if is_lost else store.fail_next
            store.interrupt(act, skip_count=skip_count)

    def _heal(self, by: int) -> None:
        self.stores[by].heal()


TestDataSetMachine = DataSetMachine.TestCase
TestDataSetMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
