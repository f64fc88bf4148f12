"""The election of the auditor, on a store in memory that fails on cue."""

from collections.abc import Iterator

import pytest

from tests.support.late_store import LateCreations
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.recorder import Recorder
from tests.support.waiting import wait_until
from zbk.errors import MetadataAccessError
from zbk.metadata.paths import AUDITOR_LEADER
from zbk.metadata.records.election import AuditorElection
from zbk.metadata.records.ledgers import initialise


@pytest.fixture
def tree() -> MemoryTree:
    return MemoryTree("election")


@pytest.fixture
def store(tree: MemoryTree) -> Iterator[MemoryStore]:
    store = tree.open_session()
    initialise(store)
    yield store
    store.close()


@pytest.fixture
def told() -> Recorder[int | None]:
    return Recorder()


def candidate(store: MemoryStore, told: Recorder[int | None]) -> AuditorElection:
    return AuditorElection(store, "a1", told, retry_s=0.01)


def test_a_suspended_session_ends_the_term_at_once(
    store: MemoryStore, told: Recorder[int | None]
) -> None:
    election = candidate(store, told)
    told.wait_last(1)

    store.suspend()

    assert election.term() is None, "before anybody was told"
    told.wait_last(None)
    store.resume()
    # the node was still ours, and the term is another one: the second; or the third, if the news
    # that the session is back comes after the second has begun
    wait_until(lambda: election.term() in (2, 3))
    election.close()


def test_a_vote_whose_reply_was_lost_counts(store: MemoryStore, told: Recorder[int | None]) -> None:
    store.lose_next_reply()

    election = candidate(store, told)

    told.wait_last(1)
    election.close()


def test_a_vote_that_was_not_made_is_made_again(
    store: MemoryStore, told: Recorder[int | None]
) -> None:
    store.fail_next(3)

    election = candidate(store, told)

    told.wait_last(1)
    election.close()


def test_a_refused_vote_is_logged_once_and_repeated_at_intervals(
    store: MemoryStore,
    told: Recorder[int | None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was repeated without a pause and without a word, and each attempt was remembered."""
    refused_count = 0

    def refused(*_values: object, **_options: object) -> None:
        nonlocal refused_count
        refused_count += 1
        raise MetadataAccessError("memory://", "refused to user 'client'")

    monkeypatch.setattr(store, "create", refused)
    election = AuditorElection(store, "a1", told, retry_s=3600, recheck_s=3600)
    for count in (1, 2, 3):
        wait_until(lambda count=count: refused_count >= count)  # type: ignore[misc]
        if count < 3:
            election._wake()
    election.close()

    assert refused_count <= 4, "one for each event, and the news of the watch"
    assert len(caplog.messages) == 1
    assert "refused to user 'client'" in caplog.text
    assert not election._claim.is_open
    assert election._claim._former == set()


def test_a_vote_that_the_store_applies_late_keeps_nobody_from_leading(
    tree: MemoryTree, told: Recorder[int | None]
) -> None:
    late = LateCreations(tree, AUDITOR_LEADER)
    initialise(late)

    election = candidate(late, told)

    told.wait_last(1)
    assert late.is_over
    election.close()
    late.close()


def test_a_node_that_somebody_removed_is_made_again(
    tree: MemoryTree, store: MemoryStore, told: Recorder[int | None]
) -> None:
    election = candidate(store, told)
    told.wait_last(1)
    operator = tree.open_session()

    operator.delete(AUDITOR_LEADER)

    told.wait_last(2)
    assert told.items == [1, None, 2]
    operator.close()
    election.close()


def test_a_node_that_was_made_and_removed_before_its_watch_told_of_it_is_made_again(
    tree: MemoryTree,
    store: MemoryStore,
    told: Recorder[int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watch had told that there is none, and there was none: it was silent."""
    silent = store.watch_node("/nobody-writes-here", lambda _node: None)
    monkeypatch.setattr(store, "watch_node", lambda _path, _callback: silent)
    election = AuditorElection(store, "a1", told, retry_s=0.01, recheck_s=0.05)
    told.wait_last(1)
    operator = tree.open_session()

    operator.delete(AUDITOR_LEADER)

    told.wait_last(2)
    operator.close()
    election.close()


def test_closing_removes_the_node_and_closing_again_nothing(
    store: MemoryStore, told: Recorder[int | None]
) -> None:
    election = candidate(store, told)
    told.wait_last(1)

    election.close()
    election.close()

    assert store.children("/underreplication/auditorelection") == []
    assert told.items == [1, None]


def test_a_store_that_is_closed_first_ends_the_term(
    store: MemoryStore, told: Recorder[int | None]
) -> None:
    election = candidate(store, told)
    told.wait_last(1)

    store.close()

    wait_until(lambda: election.term() is None)
    election.close()
    told.wait_last(None)
