"""LedgerStore on a store in memory that fails on cue."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.support.ledgers import metadata_maker
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.recorder import Recorder
from zbk.errors import (
    CorruptRecordError,
    IllegalTransitionError,
    InvalidOptionError,
    MetadataConflictError,
    MetadataUnavailableError,
    NoSuchLedgerError,
)
from zbk.metadata.paths import IDGEN, LEDGERS, ledger_path
from zbk.metadata.records.instance import read_layout
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.stores.store import Operation
from zbk.metadata.values import IdCounter, Layout, LedgerLayout, encode
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata


class Cluster:
    """A tree, two clients of it, and what pauses they made."""

    def __init__(self, layout: LedgerLayout) -> None:
        self.tree = MemoryTree("test")
        self.store = self.tree.open_session()
        self.other_store = self.tree.open_session()
        initialise(self.store, Layout(ledger_layout=layout))
        self.pauses_s: list[float] = []
        self.ledgers = self.client(self.store)
        self.others = self.client(self.other_store)

    def client(self, store: MemoryStore) -> LedgerStore:
        return LedgerStore(store, pause=self.pauses_s.append)

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


class Overtaken(MemoryStore):
    """Another client is quicker each time this one takes several steps at once."""

    def __init__(self, tree: MemoryTree, overtake: Callable[[], object]) -> None:
        super().__init__(tree)
        self._overtake = overtake

    def multi(self, operations: Sequence[Operation]) -> None:
        self._overtake()
        super().multi(operations)


@pytest.fixture(params=LedgerLayout)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    cluster = Cluster(request.param)
    yield cluster
    cluster.close()


# ------------------------------------------------------------------ create


def test_ids_start_at_zero_and_are_never_reused(cluster: Cluster) -> None:
    """B19: an id is given out once, also after its ledger was deleted."""
    first, second = (cluster.ledgers.create(metadata_maker())[0].ledger_id for _ in range(2))
    cluster.ledgers.delete(second)
    third = cluster.others.create(metadata_maker())[0].ledger_id

    assert (first, second, third) == (0, 1, 2)


def test_a_created_ledger_is_read_with_its_version(cluster: Cluster) -> None:
    created, version = cluster.ledgers.create(metadata_maker())

    assert cluster.others.read(created.ledger_id) == (created, version) == (created, 0)


def test_a_create_whose_reply_was_lost_is_found_again(cluster: Cluster) -> None:
    cluster.store.lose_next_reply()

    created, version = cluster.ledgers.create(metadata_maker())

    assert (created.ledger_id, version) == (0, 0)
    assert list(cluster.ledgers.list()) == [0]


def test_a_lost_create_that_another_has_changed_meanwhile_is_still_ours(cluster: Cluster) -> None:
    class RacedStore(MemoryStore):
        """The reply is lost, and an auditor begins to recover the ledger before we look."""

        def multi(self, operations: Sequence[Operation]) -> None:
            super().multi(operations)
            cluster.others.update(0, LedgerMetadata.with_recovery)
            raise MetadataUnavailableError(self.address, "the reply was lost")

    cluster.ledgers._swap.make_parents(cluster.ledgers._path(0))
    store = RacedStore(cluster.tree)

    created, version = cluster.client(store).create(metadata_maker())

    assert (created.state, version) == (LedgerState.IN_RECOVERY, 1)
    store.close()


def test_a_lost_create_whose_id_another_client_took_is_not_taken_for_ours(cluster: Cluster) -> None:
    """The token tells: the ledger under the id is there, and it is the other client's."""
    ours, others = metadata_maker(), metadata_maker()

    class RacedStore(MemoryStore):
        """Our step is not made, and another client makes its ledger before we look."""

        is_first = True

        def multi(self, operations: Sequence[Operation]) -> None:
            if not self.is_first:
                super().multi(operations)
                return
            self.is_first = False
            cluster.others.create(others)
            raise MetadataUnavailableError(self.address, "the reply was lost")

    cluster.ledgers._swap.make_parents(cluster.ledgers._path(0))
    store = RacedStore(cluster.tree)

    created, _version = cluster.client(store).create(ours)

    assert created == ours(1)
    assert cluster.others.read(0)[0] == others(0)
    store.close()


def test_many_are_made_in_one_step_under_ids_in_a_row(cluster: Cluster) -> None:
    cluster.others.create(metadata_maker())

    made = cluster.ledgers.create_many(metadata_maker(), 20)

    assert [one.ledger_id for one, _version in made] == list(range(1, 21))
    assert [cluster.others.read(ledger_id) for ledger_id in range(1, 21)] == made
    assert cluster.others.next_ledger_id() == 21


def test_many_whose_reply_was_lost_are_found_again(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    cluster.store.lose_next_reply()

    made = cluster.ledgers.create_many(metadata_maker(), 5)

    assert [one.ledger_id for one, _version in made] == [1, 2, 3, 4, 5]
    assert list(cluster.ledgers.list()) == [0, 1, 2, 3, 4, 5]


def test_of_many_all_are_made_or_none(cluster: Cluster) -> None:
    """One of them is there: a counter put back by hand."""
    for _ in range(3):
        cluster.ledgers.create(metadata_maker())
    counter = cluster.store.get(IDGEN)
    cluster.store.set(IDGEN, encode(IdCounter(next_ledger_id=1)), counter.version)

    made = cluster.ledgers.create_many(metadata_maker(), 4)

    assert [one.ledger_id for one, _version in made] == [3, 4, 5, 6]
    assert list(cluster.ledgers.list()) == list(range(7))


def test_a_create_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    calls: list[int] = []
    make = metadata_maker()

    def make_and_fail_once(ledger_id: int) -> LedgerMetadata:
        if not calls:
            cluster.store.fail_next()  # the multi that follows
        calls.append(ledger_id)
        return make(ledger_id)

    created, _ = cluster.ledgers.create(make_and_fail_once)

    assert calls == [1, 1]
    assert created.ledger_id == 1
    assert list(cluster.ledgers.list()) == [0, 1]


def test_an_unanswered_read_back_leaves_the_outcome_unknown(cluster: Cluster) -> None:
    make = metadata_maker()

    def make_and_go(ledger_id: int) -> LedgerMetadata:
        cluster.store.fail_next(2)  # the multi, and the reading back
        return make(ledger_id)

    with pytest.raises(MetadataUnavailableError) as caught:
        cluster.ledgers.create(make_and_go)
    assert caught.value.outcome == "unknown"


def test_a_create_that_loses_the_race_takes_the_next_id_after_a_pause(cluster: Cluster) -> None:
    cluster.others.create(metadata_maker())
    cluster.pauses_s.clear()
    make = metadata_maker()
    asked: list[int] = []

    def slow_make(ledger_id: int) -> LedgerMetadata:
        if len(asked) < 2:
            cluster.others.create(metadata_maker())
        asked.append(ledger_id)
        return make(ledger_id)

    created, _ = cluster.ledgers.create(slow_make)

    assert asked == [1, 2, 3]
    assert created.ledger_id == 3
    assert len(cluster.pauses_s) == 2
    assert all(0 <= pause_s <= 0.1 for pause_s in cluster.pauses_s)


def test_a_create_that_always_loses_gives_up(cluster: Cluster) -> None:
    make = metadata_maker()

    def always_late(ledger_id: int) -> LedgerMetadata:
        cluster.others.create(metadata_maker())
        return make(ledger_id)

    with pytest.raises(MetadataConflictError, match="in a row"):
        cluster.ledgers.create(always_late)


def test_a_counter_put_back_by_hand_overwrites_no_ledger(cluster: Cluster) -> None:
    """B19: nor when the counter is wrong."""
    old = [cluster.ledgers.create(metadata_maker())[0] for _ in range(3)]
    version = cluster.store.get(IDGEN).version
    cluster.store.set(IDGEN, encode(IdCounter(next_ledger_id=1)), version)

    new, _ = cluster.ledgers.create(metadata_maker())

    assert new.ledger_id == 3
    assert [cluster.ledgers.read(ledger.ledger_id)[0] for ledger in old] == old


# ------------------------------------------------------------------ read


def test_no_such_ledger_is_said_only_on_an_answer(cluster: Cluster) -> None:
    with pytest.raises(NoSuchLedgerError):
        cluster.ledgers.read(99)

    cluster.store.suspend()
    with pytest.raises(MetadataUnavailableError):
        cluster.ledgers.read(99)


def test_metadata_under_another_ledgers_path_is_damage(cluster: Cluster) -> None:
    first, second = (cluster.ledgers.create(metadata_maker())[0].ledger_id for _ in range(2))
    path = cluster.ledgers._path(second)
    cluster.store.set(path, cluster.store.get(cluster.ledgers._path(first)).value, version=0)

    with pytest.raises(CorruptRecordError, match="of ledger 0"):
        cluster.ledgers.read(second)


# ------------------------------------------------------------------ update


def test_an_update_is_decided_again_on_what_another_wrote(cluster: Cluster) -> None:
    """B14: a conflict is never answered by writing over it."""
    ledger_id = cluster.ledgers.create(metadata_maker())[0].ledger_id
    cluster.pauses_s.clear()
    seen: list[LedgerState] = []

    def close_slowly(current: LedgerMetadata) -> LedgerMetadata:
        seen.append(current.state)
        if len(seen) == 1:
            cluster.others.update(ledger_id, LedgerMetadata.with_recovery)
        return current.with_closed(-1, 0)

    closed, version = cluster.ledgers.update(ledger_id, close_slowly)

    assert seen == [LedgerState.OPEN, LedgerState.IN_RECOVERY]
    assert (closed.state, version) == (LedgerState.CLOSED, 2)
    assert len(cluster.pauses_s) == 1


def test_an_update_with_nothing_to_do_writes_nothing(cluster: Cluster) -> None:
    created, _ = cluster.ledgers.create(metadata_maker())

    for change in (lambda _current: None, lambda current: current):
        assert cluster.ledgers.update(0, change) == (created, 0)
    assert cluster.ledgers.read(0) == (created, 0)


def test_an_update_whose_reply_was_lost_is_recognised(cluster: Cluster) -> None:
    """B14: our own write is not taken for another's."""
    cluster.ledgers.create(metadata_maker())
    calls: list[LedgerState] = []

    def recover(current: LedgerMetadata) -> LedgerMetadata:
        calls.append(current.state)
        return current.with_recovery()

    cluster.store.lose_next_reply()
    recovering, version = cluster.ledgers.update(0, recover)

    assert (recovering.state, version) == (LedgerState.IN_RECOVERY, 1)
    assert calls == [LedgerState.OPEN]


def test_an_update_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    calls: list[LedgerState] = []

    def recover(current: LedgerMetadata) -> LedgerMetadata:
        if not calls:
            cluster.store.fail_next()
        calls.append(current.state)
        return current.with_recovery()

    assert cluster.ledgers.update(0, recover)[1] == 1
    assert calls == [LedgerState.OPEN, LedgerState.OPEN]


@pytest.mark.parametrize("who", ["we", "they"])
def test_one_of_two_claims_wins_even_when_a_reply_is_lost(cluster: Cluster, who: str) -> None:
    """Both write the same metadata; only the token tells whose write it is."""
    cluster.ledgers.create(metadata_maker(has_writer=False))

    def claim(current: LedgerMetadata) -> LedgerMetadata:
        wanted = current.with_writer()
        if who == "they" and not current.has_writer:
            cluster.others.update(0, LedgerMetadata.with_writer)
            cluster.store.fail_next()  # ours is not made, and we do not know
        elif who == "we":
            cluster.store.lose_next_reply()
        return wanted

    if who == "we":
        assert cluster.ledgers.update(0, claim)[0].has_writer
    else:
        with pytest.raises(IllegalTransitionError, match="a writer already"):
            cluster.ledgers.update(0, claim)
    assert cluster.others.read(0)[1] == 1


def test_an_illegal_change_is_refused_before_it_is_written(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    cluster.ledgers.update(0, lambda current: current.with_closed(9, 90))

    with pytest.raises(IllegalTransitionError):
        cluster.ledgers.update(0, lambda current: current.with_closed(8, 80))
    with pytest.raises(IllegalTransitionError, match="creation_token never changes"):
        cluster.ledgers.update(0, lambda _current: metadata_maker()(0))
    assert cluster.ledgers.read(0)[1] == 1


def test_an_update_that_always_loses_gives_up(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    path = cluster.ledgers._path(0)

    def always_late(current: LedgerMetadata) -> LedgerMetadata:
        node = cluster.other_store.get(path)
        cluster.other_store.set(path, node.value, node.version)
        return current.with_recovery()

    with pytest.raises(MetadataConflictError, match="others changed it"):
        cluster.ledgers.update(0, always_late)


def test_an_update_of_a_ledger_deleted_meanwhile_finds_none(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())

    def delete_first(current: LedgerMetadata) -> LedgerMetadata:
        cluster.others.delete(0)
        return current.with_recovery()

    with pytest.raises(NoSuchLedgerError):
        cluster.ledgers.update(0, delete_first)


# ------------------------------------------------------------------ delete and list


def test_a_delete_whose_reply_was_lost_is_done(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    cluster.store.lose_next_reply()

    cluster.ledgers.delete(0)

    with pytest.raises(NoSuchLedgerError):
        cluster.ledgers.delete(0)


def test_a_delete_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    assert list(cluster.ledgers.list()) == [0]
    cluster.store.fail_next()

    cluster.ledgers.delete(0)

    assert list(cluster.ledgers.list()) == []


def test_deleting_the_last_ledger_below_a_node_removes_the_node(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.ledgers.create(metadata_maker())
    cluster.ledgers.delete(0)
    assert cluster.store.children(LEDGERS) != []
    cluster.ledgers.delete(1)
    assert cluster.store.children(LEDGERS) == []

    assert cluster.ledgers.create(metadata_maker())[0].ledger_id == 2


def test_the_deletion_of_the_last_ledger_is_noted_until_one_is_made(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.ledgers.create(metadata_maker())

    cluster.ledgers.delete(1)
    assert not cluster.others.counter().is_emptied
    cluster.ledgers.delete(0)
    assert cluster.others.counter() == IdCounter(next_ledger_id=2, is_emptied=True)
    assert list(cluster.others.list()) == []

    assert cluster.others.create(metadata_maker())[0].ledger_id == 2
    assert cluster.ledgers.counter() == IdCounter(next_ledger_id=3)
    assert cluster.store.get(IDGEN).value == encode(IdCounter(next_ledger_id=3)), "as ever"


def test_what_vanishes_otherwise_leaves_no_note(cluster: Cluster) -> None:
    layout = read_layout(cluster.store).ledger_layout
    cluster.ledgers.create(metadata_maker())
    cluster.store.delete(ledger_path(0, layout))

    with pytest.raises(NoSuchLedgerError):
        cluster.ledgers.delete(0)

    assert list(cluster.ledgers.list()) == []
    assert not cluster.ledgers.counter().is_emptied


def test_a_ledger_made_while_the_last_one_is_deleted_leaves_no_note(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    store = Overtaken(cluster.tree, lambda: cluster.others.create(metadata_maker()))

    cluster.client(store).delete(0)
    store.close()

    assert list(cluster.ledgers.list()) == [1]
    assert not cluster.ledgers.counter().is_emptied


def test_a_listing_is_ascending_and_reads_the_tree_piece_by_piece(cluster: Cluster) -> None:
    wanted = [0, 1, 9_999, 10_000, 123_456_789, 2**31 - 2, 2**31 - 1, 2**31, 2**62]
    for ledger_id in wanted:
        version = cluster.store.get(IDGEN).version
        cluster.store.set(IDGEN, encode(IdCounter(next_ledger_id=ledger_id)), version)
        cluster.ledgers.create(metadata_maker())

    listing = cluster.ledgers.list()
    assert next(listing) == 0
    assert next(listing) == 1
    assert list(listing) == wanted[2:]


def test_a_listing_that_is_cut_off_is_an_error_and_no_short_list(cluster: Cluster) -> None:
    """B32: whoever deletes what is not listed never works from half a list."""
    cluster.ledgers.create(metadata_maker())
    listing = cluster.ledgers.list()
    cluster.store.suspend()

    with pytest.raises(MetadataUnavailableError):
        list(listing)


def test_a_strange_name_among_the_ledgers_fails_the_listing(cluster: Cluster) -> None:
    """B32: a name that nobody understands may be a ledger."""
    cluster.ledgers.create(metadata_maker())
    cluster.store.create(f"{LEDGERS}/strange")

    with pytest.raises(CorruptRecordError, match="strange"):
        list(cluster.ledgers.list())


# ------------------------------------------------------------------ watch


def test_a_watch_tells_each_change_and_the_end(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    seen: Recorder[tuple[LedgerMetadata, int] | None] = Recorder()
    watch = cluster.ledgers.watch(0, seen)
    seen.wait_last(None)
    created, _ = cluster.others.create(metadata_maker())
    seen.wait_last((created, 0))
    closed, version = cluster.others.update(0, lambda current: current.with_closed(3, 30))
    seen.wait_last((closed, version))

    path = cluster.ledgers._path(0)
    cluster.other_store.set(path, b"damage", version)
    cluster.store.settle()
    assert "watching ledger 0" in caplog.text
    cluster.others.delete(0)

    assert seen.wait_last(None) == [None, (created, 0), (closed, 1), None]
    watch.cancel()
    cluster.others.create(metadata_maker())
    cluster.store.settle()
    assert len(seen.items) == 4


def test_a_store_without_a_cluster_says_what_to_do() -> None:
    store = MemoryTree("empty").open_session()
    ledgers = LedgerStore(store)

    for call in (
        lambda: ledgers.create(metadata_maker()),
        lambda: ledgers.read(0),
        lambda: next(ledgers.list()),
    ):
        with pytest.raises(InvalidOptionError, match="zbk up"):
            call()
    store.close()
