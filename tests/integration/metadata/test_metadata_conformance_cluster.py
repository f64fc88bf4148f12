"""Ledgers and bookies, on every body of the metadata port."""

from functools import partial

import msgspec

from tests.support.at_once import run_at_once
from tests.support.ledgers import metadata_maker
from tests.support.metadata_bodies import Body
from tests.support.recorder import Recorder
from tests.support.waiting import wait_until
from zbk.errors import IllegalTransitionError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.registration import RegistrationState
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import BookieRegistration, IdCounter
from zbk.protocol.ledger.metadata import LedgerMetadata

BOOKIE = BookieRegistration(
    bookie_id="b1",
    address="tcp://127.0.0.1:1",
    incarnation=1,
    is_readonly=False,
    started_ms=1,
    version="0",
)


def test_of_four_who_initialise_at_once_one_does(body: Body) -> None:
    found: list[str] = []

    def race(own: MetadataStore) -> None:
        found.append(initialise(own))

    run_at_once([partial(race, body.open()) for _ in range(4)])

    assert len(found) == 4
    assert len(set(found)) == 1


def test_concurrent_creates_get_different_ids(body: Body, store: MetadataStore) -> None:
    initialise(store)
    ids: list[int] = []

    def create(own: MetadataStore) -> None:
        ledgers = LedgerStore(own)
        ids.extend(ledgers.create(metadata_maker())[0].ledger_id for _ in range(8))

    run_at_once([partial(create, body.open()) for _ in range(4)])

    assert sorted(ids) == list(range(32))
    assert list(LedgerStore(store).list()) == list(range(32))


def test_after_many_deletions_at_once_the_last_one_notes_that_no_ledger_is_left(
    body: Body, store: MetadataStore
) -> None:
    initialise(store)
    ledgers = LedgerStore(store)
    for _ in range(12):
        ledgers.create(metadata_maker())

    def delete(own: MetadataStore, first: int) -> None:
        for ledger_id in range(first, first + 3):
            LedgerStore(own).delete(ledger_id)

    run_at_once([partial(delete, body.open(), first) for first in (0, 3, 6, 9)])
    assert list(ledgers.list()) == []
    made = ledgers.create(metadata_maker())[0].ledger_id
    assert not ledgers.counter(is_fresh=True).is_emptied
    ledgers.delete(made)

    assert ledgers.counter(is_fresh=True) == IdCounter(next_ledger_id=13, is_emptied=True)
    assert ledgers.create(metadata_maker())[0].ledger_id == 13
    assert list(ledgers.list()) == [13]


def test_an_id_is_not_reused_after_its_ledger_was_deleted(
    store: MetadataStore, other: MetadataStore
) -> None:
    initialise(store)
    ledgers, others = LedgerStore(store), LedgerStore(other)
    ids = [ledgers.create(metadata_maker())[0].ledger_id for _ in range(3)]
    for ledger_id in reversed(ids):
        others.delete(ledger_id)

    assert ledgers.create(metadata_maker())[0].ledger_id == 3
    assert list(others.list()) == [3]


def test_concurrent_updates_lose_none(body: Body, store: MetadataStore) -> None:
    initialise(store)
    LedgerStore(store).create(metadata_maker())

    def add_fragment(now: LedgerMetadata) -> LedgerMetadata:
        last = now.last_fragment
        return now.with_new_fragment(last.first_entry_id + 1, last.bookies[1:] + last.bookies[:1])

    def change(own: MetadataStore) -> None:
        for _ in range(8):
            LedgerStore(own).update(0, add_fragment)

    run_at_once([partial(change, body.open()) for _ in range(4)])

    metadata, version = LedgerStore(store).read(0)
    assert version == 32
    assert [fragment.first_entry_id for fragment in metadata.fragments] == list(range(33))


def test_of_four_who_claim_a_reserved_ledger_one_gets_it(body: Body, store: MetadataStore) -> None:
    initialise(store)
    LedgerStore(store).create(metadata_maker(has_writer=False))
    outcomes: list[str] = []

    def claim(own: MetadataStore) -> None:
        try:
            LedgerStore(own).update(0, LedgerMetadata.with_writer)
        except IllegalTransitionError:
            outcomes.append("late")
        else:
            outcomes.append("writer")

    run_at_once([partial(claim, body.open()) for _ in range(4)])

    assert sorted(outcomes) == ["late", "late", "late", "writer"]
    assert LedgerStore(store).read(0)[1] == 1


def test_a_watch_on_a_ledger_tells_its_closing(store: MetadataStore, other: MetadataStore) -> None:
    initialise(store)
    created, _ = LedgerStore(other).create(metadata_maker())
    seen: Recorder[tuple[LedgerMetadata, int] | None] = Recorder()
    LedgerStore(store).watch(0, seen)
    seen.wait_last((created, 0))

    closed = LedgerStore(other).update(0, lambda now: now.with_closed(9, 90))

    assert seen.wait_last(closed) == [(created, 0), closed]


def test_a_registration_is_made_again_after_its_session_was_lost(
    body: Body, store: MetadataStore, other: MetadataStore
) -> None:
    initialise(store)
    changes: Recorder[RegistrationState] = Recorder()
    registration = BookieRegistry(store).register(BOOKIE, changes)
    seen: Recorder[int] = Recorder()
    watch = BookieRegistry(other).watch_available(lambda bookies: seen(len(bookies)))
    seen.wait_last(1)

    body.expire(store)

    changes.wait(lambda items: items[-2:] == [RegistrationState.LOST, RegistrationState.REGISTERED])
    wait_until(lambda: BookieRegistry(other).available() == {"b1": BOOKIE})
    seen.wait_last(1)
    registration.set_readonly(is_readonly=True)
    readonly = msgspec.structs.replace(BOOKIE, is_readonly=True)
    assert BookieRegistry(other).readonly() == {"b1": readonly}
    assert BookieRegistry(other).available() == {}
    registration.close()
    assert BookieRegistry(other).readonly() == {}
    watch.cancel()
