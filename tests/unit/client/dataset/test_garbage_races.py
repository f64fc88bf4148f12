"""Collections beside loads that begin, commit and merge at any moment: what was committed stays."""

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest

from tests.support.at_once import run_at_once
from tests.support.data_set_janitor import World, world
from tests.support.fake_data_sets import NAME, SCHEMA, write_ledger
from zbk.client.dataset.datasets import LoadTicket
from zbk.errors import LoadAbortedError, NoSuchVersionError
from zbk.protocol.dataset.manifest import DataLedger

__all__ = ["world"]


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
