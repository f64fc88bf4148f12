"""What loads leave behind: aborts, the next load, collections; and that nothing else ever goes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pytest

from tests.support.at_once import run_at_once
from tests.support.fake_data_sets import SCHEMA, Clock, FakeDataSetClient, write_ledger
from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryTree
from zbk.client.dataset import ledgers as dataset_ledgers
from zbk.client.dataset.datasets import DataSets, LoadTicket
from zbk.client.dataset.garbage import LOOK_COUNT_MAX, SETTLE_COUNT_MAX
from zbk.client.dataset.loads import TTL_MS
from zbk.errors import (
    BusyError,
    CorruptRecordError,
    InvalidOptionError,
    LoadAbortedError,
    NoSuchDataSetError,
    NoSuchVersionError,
    UnauthorizedError,
)
from zbk.metadata.paths import load_path
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.values import encode
from zbk.protocol.dataset.dataset import (
    LOAD_COUNT_MAX,
    REMEMBERED_COUNT,
    Load,
    LoadKind,
    LoadState,
    new_load_id,
)
from zbk.protocol.dataset.manifest import DataLedger

NAME = "events"


class World:
    """A tree in memory, a driver, and a janitor."""

    def __init__(self) -> None:
        self.tree = MemoryTree("data sets")
        self.payloads: dict[int, list[bytes]] = {}
        self.clock = Clock()
        self.stores: list[HookedStore] = []
        self.clients: list[FakeDataSetClient] = []
        self.driver = self.data_sets()
        initialise(self.stores[0])
        self.janitor = self.data_sets()

    def data_sets(self, password: bytes = b"") -> DataSets:
        """Return those of one more client."""
        self.stores.append(HookedStore(self.tree))
        self.clients.append(FakeDataSetClient(self.stores[-1], self.payloads))
        return self.clients[-1].data_sets(self.clock, password)

    def load(
        self, count: int = 1, kind: LoadKind = LoadKind.APPEND, *, failed_count: int = 0
    ) -> LoadTicket:
        """Commit a load of so many ledgers, beside which some attempts have failed."""
        ticket = self.driver.begin(NAME, kind)
        failed = [write_ledger(self.driver, ticket, attempt=n) for n in range(failed_count)]
        ledgers = [write_ledger(self.driver, ticket, attempt=len(failed)) for _ in range(count)]
        self.driver.commit(ticket, SCHEMA, ledgers)
        return ticket

    def state(self, ticket: LoadTicket) -> LoadState | None:
        found = self.janitor.loads(NAME).get(ticket.load_id)
        return None if found is None else found.state

    def ledger_ids(self) -> set[int]:
        return self.clients[0].ledger_ids()

    def readable(self) -> list[int]:
        """Return how many ledgers each version lists, all of which are there."""
        counts = []
        for version in self.janitor.history(NAME).versions:
            snapshot = self.janitor.read(NAME, version.version)
            assert {one.ledger_id for one in snapshot.ledgers} <= self.ledger_ids()
            counts.append(len(snapshot.ledgers))
        return counts

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


# ------------------------------------------------------------------ abort


def test_an_abort_deletes_whatever_the_load_made_and_nothing_else(world: World) -> None:
    world.load()
    before = world.ledger_ids()
    ticket, neighbour = world.driver.begin(NAME), world.driver.begin("other")
    for attempt in range(3):
        write_ledger(world.driver, ticket, attempt=attempt)
    world.driver.create_ledger(ticket, partition=9, attempt=0)  # never closed
    other = write_ledger(world.driver, neighbour)

    aborted = world.janitor.abort(ticket)

    assert (aborted.state, aborted.deleted_count) == (LoadState.ABORTED, 4)
    assert world.ledger_ids() == before | {other.ledger_id}
    assert world.janitor.abort(ticket).deleted_count == 0
    assert world.readable() == [1]


def test_an_abort_looks_at_the_ledgers_since_its_begin_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.load(5)
    ticket = world.driver.begin(NAME)
    write_ledger(world.driver, ticket)

    world.driver.abort(ticket)
    assert world.clients[0].listed_count == 0

    monkeypatch.setattr(dataset_ledgers, "SPAN_COUNT_MAX", 0)  # as after very many ledgers
    ticket = world.driver.begin(NAME)
    write_ledger(world.driver, ticket)
    assert world.driver.abort(ticket).deleted_count == 1
    assert world.clients[0].listed_count == 1
    assert world.readable() == [5]


# ------------------------------------------------------------------ the next load


def test_the_next_load_deletes_what_an_expired_one_left(world: World) -> None:
    """A driver was killed: nobody aborts its load, and nobody but the next driver comes by."""
    world.load()
    before = world.ledger_ids()
    dead = world.driver.begin(NAME)
    write_ledger(world.driver, dead)
    world.clock.now_ms += TTL_MS - 1
    world.janitor.begin(NAME)
    assert world.state(dead) is LoadState.OPEN
    world.clock.now_ms += 1

    world.janitor.begin(NAME)

    assert world.ledger_ids() == before
    assert world.state(dead) is None
    with pytest.raises(LoadAbortedError):
        world.driver.commit(dead, SCHEMA, [])


def test_the_next_load_deletes_failed_attempts_of_those_before_it(world: World) -> None:
    ticket = world.load(2, failed_count=3)
    assert len(world.ledger_ids()) == 6
    world.clock.now_ms += TTL_MS

    world.janitor.begin(NAME)

    assert len(world.ledger_ids()) == 3
    assert world.readable() == [2]
    assert world.state(ticket) is None
    assert world.driver.commit(ticket, SCHEMA, []).current_version == 1, "its version tells"


def test_a_load_costs_no_look_at_any_ledger_while_nothing_is_due(world: World) -> None:
    for _ in range(5):
        world.load(failed_count=1)

    world.janitor.begin(NAME)

    assert world.clients[1].looked == []
    assert world.clients[1].listed_count == 0


def test_a_load_settles_a_bounded_number_of_others(world: World) -> None:
    for _ in range(SETTLE_COUNT_MAX + 3):
        world.driver.begin(NAME)
    world.clock.now_ms += TTL_MS

    world.janitor.begin(NAME)
    assert len(world.janitor.loads(NAME)) == 3 + 1
    world.janitor.begin(NAME)
    assert len(world.janitor.loads(NAME)) == 2


def test_where_very_many_loads_are_known_those_that_ended_are_forgotten_early(
    world: World,
) -> None:
    live = world.driver.begin(NAME, ttl_ms=TTL_MS - 1)  # the first one to be looked at
    for _ in range(REMEMBERED_COUNT + 2 * SETTLE_COUNT_MAX):
        world.load(0, LoadKind.OVERWRITE)

    known = world.janitor.loads(NAME)

    assert len(known) <= REMEMBERED_COUNT + SETTLE_COUNT_MAX
    assert known[live.load_id].state is LoadState.OPEN


def test_live_loads_do_not_keep_those_that_ended_from_being_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed drivers leave loads that are OPEN until their time is over."""
    monkeypatch.setattr("zbk.client.dataset.garbage.REMEMBERED_COUNT", LOOK_COUNT_MAX)
    live = [world.driver.begin(NAME, ttl_ms=TTL_MS - 1) for _ in range(2 * LOOK_COUNT_MAX)]
    for _ in range(3 * LOOK_COUNT_MAX):
        world.load(0, LoadKind.OVERWRITE)

    known = world.janitor.loads(NAME)

    assert len(known) <= len(live) + LOOK_COUNT_MAX + SETTLE_COUNT_MAX
    assert all(known[one.load_id].state is LoadState.OPEN for one in live)


def test_too_many_live_loads_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOAD_COUNT_MAX > LOOK_COUNT_MAX
    monkeypatch.setattr("zbk.client.dataset.datasets.LOAD_COUNT_MAX", 3)
    for _ in range(3):
        world.driver.begin(NAME)

    with pytest.raises(BusyError, match="3 loads are known"):
        world.driver.begin(NAME)


def test_a_load_begins_though_an_expired_one_cannot_be_settled(world: World) -> None:
    dead = world.driver.begin(NAME)
    world.clock.now_ms += TTL_MS
    world.stores[1].interrupt(world.stores[1].fail_next, "get", dead.load_id)

    world.janitor.begin(NAME)

    assert world.state(dead) is LoadState.OPEN


def test_a_load_begins_though_an_expired_batch_cannot_be_looked_into(world: World) -> None:
    """There are versions with two passwords, and manifests tell what a batch has listed."""
    secret = world.data_sets(b"secret")
    ticket = secret.begin(NAME)
    secret.commit(ticket, SCHEMA, [write_ledger(secret, ticket)])
    ticket = world.driver.begin(NAME, LoadKind.OVERWRITE)
    world.driver.commit(ticket, SCHEMA, [write_ledger(world.driver, ticket)])
    batch = world.driver.begin(NAME, stream="s", batch_id=0, ttl_ms=1)
    write_ledger(world.driver, batch)
    behind = world.driver.begin(NAME, ttl_ms=2)
    world.clock.now_ms += 2

    world.janitor.begin(NAME)

    assert world.state(batch) is LoadState.ABORTED, "its ledger stays until somebody can look"
    assert world.state(behind) is None
    secret.drop_version(NAME, 1)
    assert world.janitor.collect(NAME).deleted_count == 1 + 2


def test_failed_attempts_of_a_load_with_another_password_wait_for_a_collection(
    world: World,
) -> None:
    secret = world.data_sets(b"secret")
    ticket = secret.begin(NAME)
    write_ledger(secret, ticket)
    secret.commit(ticket, SCHEMA, [write_ledger(secret, ticket, attempt=1)])
    world.clock.now_ms += TTL_MS

    world.janitor.begin(NAME, LoadKind.OVERWRITE)

    assert len(world.ledger_ids()) == 3
    with pytest.raises(UnauthorizedError):
        world.janitor.collect(NAME)
    assert secret.collect(NAME).deleted_count == 1
    assert len(secret.read(NAME).ledgers) == 1


# ------------------------------------------------------------------ collect


def test_a_collection_finds_every_kind_of_leftover(world: World) -> None:
    """B32: and only what two looks, in this order, have found to be nobody's."""
    world.load(2, failed_count=1)
    dead, live = world.driver.begin(NAME, ttl_ms=5), world.driver.begin(NAME)
    for ticket in (dead, live):
        write_ledger(world.driver, ticket)
    world.load(1, LoadKind.OVERWRITE)
    world.janitor.drop_version(NAME, 1)
    world.clock.now_ms += 5

    would = world.janitor.collect(NAME, is_dry_run=True)
    assert world.state(dead) is LoadState.OPEN
    assert (would.deleted_count, would.aborted_count) == (0, 0)
    done = world.janitor.collect(NAME)

    assert would.leftover == done.leftover
    assert len(done.leftover) == 1 + 1 + 2 + 1, "failed, expired, two dropped and their manifest"
    assert (done.deleted_count, done.aborted_count, done.live_count) == (5, 1, 1)
    assert done.expired == (dead.load_id,)
    assert world.readable() == [1]
    assert world.state(live) is LoadState.OPEN
    again = world.janitor.collect(NAME)
    assert (again.leftover, again.expired) == ((), ())


def test_ended_loads_are_remembered_until_their_time_is_over(world: World) -> None:
    ticket = world.load()
    world.janitor.collect(NAME)
    assert world.state(ticket) is LoadState.COMMITTED
    world.clock.now_ms += TTL_MS

    world.janitor.collect(NAME)

    assert world.state(ticket) is None
    assert world.readable() == [1]


def test_a_late_task_of_a_forgotten_load_leaves_a_ledger_that_is_collected(world: World) -> None:
    dead = world.driver.begin(NAME)
    world.clock.now_ms += TTL_MS
    world.janitor.begin(NAME)
    write_ledger(world.driver, dead)

    assert world.janitor.collect(NAME).deleted_count == 1
    assert world.ledger_ids() == set()


def test_a_collection_of_everything_finds_what_dropped_data_sets_left(world: World) -> None:
    """A driver was killed between the drop and the deletes; or a task came later."""
    world.load(2)
    world.clients[0].data_set_store.drop(NAME)
    world.load(1, failed_count=1)
    world.driver.begin("empty")
    before = world.ledger_ids()

    would = list(world.janitor.collect_all(is_dry_run=True))
    assert world.ledger_ids() == before
    done = list(world.janitor.collect_all())

    assert [one.leftover for one in would] == [one.leftover for one in done]
    assert [(one.name, one.is_dropped, one.deleted_count) for one in done] == [
        ("empty", False, 0), (NAME, False, 1), (NAME, True, 3),
    ]  # fmt: skip
    assert world.readable() == [1]


def test_a_collection_of_everything_goes_on_where_one_is_not_ours_to_look_into(
    world: World,
) -> None:
    secret = world.data_sets(b"secret")
    ticket = secret.begin("a-secret")
    secret.commit(ticket, SCHEMA, [write_ledger(secret, ticket)])
    world.load(failed_count=1)

    found = {one.name: one for one in world.janitor.collect_all()}

    assert "password" in found["a-secret"].refused
    assert found["a-secret"].deleted_count == 0
    assert found[NAME].deleted_count == 1
    assert len(secret.read("a-secret").ledgers) == 1


def test_ledgers_that_are_of_no_data_set_are_never_touched(world: World) -> None:
    plain = world.clients[0].create_ledger(custom_metadata={"job": b"nightly"})
    odd = world.clients[0].create_ledger(
        custom_metadata={"zbk.dataset": b"x", "zbk.dataset.name": b"no/name", "zbk.load": b"y"}
    )
    world.load()

    found = list(world.janitor.collect_all())

    assert {plain.ledger_id, odd.ledger_id} <= world.ledger_ids()
    assert [bool(one.refused) for one in found] == [False, True]
    world.driver.drop(NAME)
    assert world.ledger_ids() == {plain.ledger_id, odd.ledger_id}


def test_a_manifest_that_cannot_be_read_means_that_nothing_is_deleted(world: World) -> None:
    """B32: what is listed is not known, so nothing is known to be unlisted."""
    world.load(failed_count=1)
    current = world.janitor.history(NAME).current
    assert current is not None
    world.payloads[current.manifests[0]][1] = b"damage"
    before = world.ledger_ids()

    with pytest.raises(CorruptRecordError):
        world.janitor.collect(NAME)

    world.clients[0].delete_ledger(current.manifests[0])
    with pytest.raises(CorruptRecordError, match="a manifest is gone"):
        world.janitor.collect(NAME)
    assert world.ledger_ids() == before - {current.manifests[0]}


def test_a_load_that_commits_between_any_two_questions_of_a_collection_stays() -> None:
    """B32: with a commit before its first question, before its second one, and so on."""

    def act(world: World, ticket: LoadTicket, ledger: DataLedger) -> None:
        world.driver.commit(ticket, SCHEMA, [ledger])

    assert _interrupted_everywhere(act) > 20, "a collection asks so many questions"


def test_a_load_that_merges_between_any_two_questions_of_a_collection_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B32: likewise, where the commit lists what others have loaded in a manifest of its own."""
    monkeypatch.setattr("zbk.protocol.dataset.dataset.MANIFEST_COUNT_MAX", 3)

    def act(world: World, ticket: LoadTicket, ledger: DataLedger) -> None:
        for _ in range(2):
            world.load()
        assert world.janitor.history(NAME).needs_merge
        world.driver.commit(ticket, SCHEMA, [ledger])

    assert _interrupted_everywhere(act) > 20


def test_a_load_that_begins_between_any_two_questions_of_a_collection_stays() -> None:
    """B32: likewise."""

    def act(world: World, ticket: LoadTicket, ledger: DataLedger) -> None:
        world.driver.commit(ticket, SCHEMA, [ledger])
        late = world.driver.begin(NAME)
        begun.append((late, write_ledger(world.driver, late)))

    def check(world: World) -> None:
        late, ledger = begun.pop()
        world.driver.commit(late, SCHEMA, [ledger])
        assert world.readable()[-1] == 3

    begun: list[tuple[LoadTicket, DataLedger]] = []
    assert _interrupted_everywhere(act, check) > 20


def test_a_load_whose_node_a_listing_does_not_show_yet_is_live(world: World) -> None:
    """A listing may come from a server of the store that lags; a load's own node is asked fresh."""
    ticket = world.driver.begin(NAME)
    ledger = write_ledger(world.driver, ticket)
    world.stores[1].hidden = frozenset([ticket.load_id])

    assert world.janitor.collect(NAME).leftover == ()
    assert ledger.ledger_id in world.ledger_ids()


def test_of_a_commit_and_a_collection_of_an_expired_load_exactly_one_wins(world: World) -> None:
    """Hundreds of rounds: the driver commits while the janitor finds that its time is over."""
    outcomes = set()
    for number in range(200):
        name = f"set-{number}"
        ticket = world.driver.begin(name, ttl_ms=1)
        ledger = write_ledger(world.driver, ticket)
        world.clock.now_ms += 1
        said: list[bool] = []

        def commit(
            ticket: LoadTicket = ticket, ledger: DataLedger = ledger, said: list[bool] = said
        ) -> None:
            try:
                world.driver.commit(ticket, SCHEMA, [ledger])
            except LoadAbortedError:
                said.append(False)
            else:
                said.append(True)

        def collect(name: str = name) -> None:
            world.janitor.collect(name)

        run_at_once([commit, collect] if number % 2 else [collect, commit])
        world.janitor.collect(name)  # what the loser has left

        is_there = ledger.ledger_id in world.ledger_ids()
        assert said == [is_there]
        versions = world.janitor.history(name).versions
        assert bool(versions) is is_there
        if is_there:
            assert world.janitor.read(name).ledgers == (ledger,)
        outcomes.add(is_there)
        world.driver.drop(name)
    assert world.ledger_ids() == set()


def test_threads_that_load_while_others_collect_and_drop_versions_lose_nothing(
    world: World,
) -> None:
    """B32: what was committed can be read, whole, whatever goes on beside it."""
    is_over = threading.Event()
    expected: list[int] = []
    lock = threading.Lock()

    def load() -> None:
        sets = world.data_sets()
        for number in range(25):
            ticket = sets.begin(NAME)
            write_ledger(sets, ticket, partition=0, attempt=0)
            ledgers = [write_ledger(sets, ticket, partition=n, attempt=1) for n in range(2)]
            if number % 5 == 4:
                sets.abort(ticket)
                continue
            sets.commit(ticket, SCHEMA, ledgers)
            with lock:
                expected.extend(one.ledger_id for one in ledgers)

    def tidy() -> None:
        sets = world.data_sets()
        while not is_over.is_set():
            sets.collect(NAME)
            versions = sets.history(NAME).versions
            if len(versions) > 3:
                with suppress(NoSuchVersionError):  # the other one was quicker
                    sets.drop_version(NAME, versions[0].version)

    world.driver.begin(NAME)
    janitors = [threading.Thread(target=tidy, daemon=True) for _ in range(2)]
    failures = _watched(janitors)
    try:
        run_at_once([load, load, load])
    finally:
        is_over.set()
        for janitor in janitors:
            janitor.join(30)
    assert failures == []

    world.janitor.collect(NAME)
    snapshot = world.janitor.read(NAME)
    assert sorted(one.ledger_id for one in snapshot.ledgers) == sorted(expected)
    manifests = {m for v in world.janitor.history(NAME).versions for m in v.manifests}
    assert world.ledger_ids() == set(expected) | manifests, "and nothing else is left"


# ------------------------------------------------------------------ micro-batches


def test_all_who_take_part_in_a_micro_batch_are_given_one_ticket(world: World) -> None:
    load_id = world.driver.new_load_id(TTL_MS)

    tickets = [
        sets.begin(NAME, stream="s", batch_id=0, load_id=load_id)
        for sets in (world.driver, world.janitor, world.driver)
    ]

    assert len(set(tickets)) == 1
    ledgers = [write_ledger(world.driver, one, partition=n) for n, one in enumerate(tickets)]
    world.driver.commit(tickets[0], SCHEMA, ledgers)
    with pytest.raises(LoadAbortedError):
        world.driver.begin(NAME, stream="s", batch_id=0, load_id=load_id)


def test_a_load_id_is_for_micro_batches_only(world: World) -> None:
    with pytest.raises(InvalidOptionError):
        world.driver.begin(NAME, load_id=world.driver.new_load_id(TTL_MS))


def test_a_late_task_that_begins_a_committed_and_forgotten_batch_anew_harms_nothing(
    world: World,
) -> None:
    load_id = new_load_id(world.clock.now_ms + 10, "0" * 32)
    ticket = world.driver.begin(NAME, stream="s", batch_id=0, load_id=load_id)
    ledger = write_ledger(world.driver, ticket)
    world.driver.commit(ticket, SCHEMA, [ledger])
    world.clock.now_ms += 10
    world.janitor.begin(NAME)  # forgets it
    assert world.state(ticket) is None
    late = Load(
        load_id=load_id, data_set_id=ticket.data_set_id, kind=ticket.kind, base_version=0,
        first_ledger_id=0, started_ms=0, expires_ms=world.clock.now_ms, who="", stream="s",
        batch_id=0,
    )  # fmt: skip
    path = load_path(NAME, ticket.data_set_id, load_id)
    world.clients[0].store.create(path, encode(late))  # a task that slept since before the commit

    world.janitor.begin(NAME)  # settles it: it is expired

    assert world.state(ticket) is None
    assert world.readable() == [1]
    world.clients[0].store.create(path, encode(late))
    assert world.driver.commit(ticket, SCHEMA, [ledger]).current_version == 1
    world.janitor.collect(NAME)
    assert world.readable() == [1]


# ------------------------------------------------------------------ drop


def test_a_dropped_data_set_is_gone_with_all_its_ledgers(world: World) -> None:
    world.load(2, failed_count=1)
    write_ledger(world.driver, world.driver.begin(NAME))
    other = world.driver.begin("other")
    kept = write_ledger(world.driver, other)

    assert world.janitor.drop(NAME) == 5

    assert world.ledger_ids() == {kept.ledger_id}
    for call in (world.janitor.collect, world.janitor.drop, world.janitor.read):
        with pytest.raises(NoSuchDataSetError):
            call(NAME)


def test_a_data_set_made_anew_under_the_name_is_not_touched_by_what_is_left_of_the_old(
    world: World,
) -> None:
    old = world.load(1)
    world.driver.drop(NAME)
    late = write_ledger(world.driver, old)
    world.load(2)

    assert world.janitor.collect(NAME).leftover == ()
    assert late.ledger_id in world.ledger_ids()
    assert world.janitor.abort(old).state is None
    deleted = [one.deleted_count for one in world.janitor.collect_all()]
    assert deleted == [0, 1]
    assert world.readable() == [2]


# ------------------------------------------------------------------ private


def _interrupted_everywhere(
    act: Callable[[World, LoadTicket, DataLedger], None],
    check: Callable[[World], None] = lambda _world: None,
) -> int:
    """Run an open load before each of a collection's questions; return how many there are."""
    for number in count():
        world = World()
        world.load(failed_count=1)
        ticket = world.driver.begin(NAME)
        ledger = write_ledger(world.driver, ticket)
        has_come = world.stores[1].interrupt(
            lambda w=world, t=ticket, one=ledger: act(w, t, one),  # type: ignore[misc]  # of this turn
            skip_count=number,
        )
        world.janitor.collect(NAME)
        if not has_come():
            world.close()
            return number
        assert ledger.ledger_id in [one.ledger_id for one in world.janitor.read(NAME).ledgers]
        assert world.readable()
        check(world)
        world.close()
    raise AssertionError("a collection ends")


def _watched(threads: list[threading.Thread]) -> list[BaseException]:
    """Start threads; return the list in which their failures will be."""
    failures: list[BaseException] = []
    for thread in threads:
        run = thread.run

        def watched(run: Callable[[], None] = run) -> None:
            try:
                run()
            except BaseException as error:  # noqa: BLE001 - compared in the test's own thread
                failures.append(error)

        thread.run = watched  # type: ignore[method-assign]  # that is how one watches
        thread.start()
    return failures
