"""The election of the auditor, on every body of the metadata port."""

from collections.abc import Iterator

import pytest

from tests.support.metadata_bodies import Body
from tests.support.recorder import Recorder
from tests.support.waiting import wait_until
from zbk.metadata.records.election import AuditorElection, read_auditor
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.stores.store import MetadataStore


class Candidate:
    """A candidate, and what it was told."""

    def __init__(self, store: MetadataStore, name: str) -> None:
        self.told: Recorder[int | None] = Recorder()
        self.election = AuditorElection(store, name, self.told, retry_s=0.02)

    def leads(self) -> bool:
        return self.election.term() is not None


@pytest.fixture
def first(store: MetadataStore) -> Iterator[Candidate]:
    initialise(store)
    candidate = Candidate(store, "first")
    candidate.told.wait_last(1)
    yield candidate
    candidate.election.close()


@pytest.fixture
def second(other: MetadataStore, first: Candidate) -> Iterator[Candidate]:
    assert first.leads()
    candidate = Candidate(other, "second")
    yield candidate
    candidate.election.close()


def test_one_leads_and_all_can_see_who(
    store: MetadataStore, other: MetadataStore, first: Candidate, second: Candidate
) -> None:
    for one in (store, other):
        vote = read_auditor(one)
        assert vote is not None
        assert vote.candidate_id == "first"
    assert first.leads()
    assert not second.leads()
    assert second.told.items == []


def test_who_resigns_is_followed(first: Candidate, second: Candidate) -> None:
    first.election.close()

    second.told.wait_last(1)
    assert first.told.items == [1, None]
    assert not first.leads()


def test_who_dies_is_followed(store: MetadataStore, first: Candidate, second: Candidate) -> None:
    assert (first.leads(), second.leads()) == (True, False)

    store.close()

    second.told.wait_last(1, timeout_s=30.0)


def test_a_lost_session_ends_the_term(
    body: Body, store: MetadataStore, first: Candidate, second: Candidate
) -> None:
    body.expire(store)

    first.told.wait(lambda told: None in told, timeout_s=30.0)
    wait_until(lambda: first.leads() != second.leads(), 30.0, "one to lead")
    vote = read_auditor(store)
    assert vote is not None
    assert vote.candidate_id == ("first" if first.leads() else "second")


def test_a_candidate_alone_leads_again_in_a_new_session(
    body: Body, store: MetadataStore, first: Candidate
) -> None:
    body.expire(store)

    told = first.told.wait(lambda told: len(told) >= 3 and told[-1] is not None, timeout_s=30.0)

    terms = [term for term in told if term is not None]
    assert terms == sorted(set(terms)), "each term has a number of its own"


def test_an_auditor_that_nobody_elected_is_nobody(store: MetadataStore) -> None:
    initialise(store)

    assert read_auditor(store) is None
