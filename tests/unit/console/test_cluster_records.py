"""Changes of the metadata become events: elections, audits, ensembles, recoveries."""

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.console.cluster_records import (
    LEDGER_COUNT_MAX,
    Change,
    ClusterRecords,
    changes_between,
    read_records,
)
from zbk.metadata.paths import AUDITOR_LEADER
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.compare_and_swap import CompareAndSwap
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.values import AuditorStatus, AuditorVote, encode
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata

VOTE = AuditorVote(candidate_id="host-1", token="t", elected_ms=0)
STATUS = AuditorStatus(candidate_id="host-1", told_ms=0)


def ledger(ledger_id: int = 0) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=3,
        write_quorum_size=3,
        ack_quorum_size=2,
        ledger_type=LedgerType.PD_JOURNAL,
        digest_type=DigestType.XXH3,
        password_digest=b"",
        fragments=(Fragment(0, ("a", "b", "c")),),
        created_ms=0,
        creation_token="t",
    )


def records(
    *ledgers: LedgerMetadata, vote: AuditorVote | None = VOTE, status: AuditorStatus | None = STATUS
) -> ClusterRecords:
    return ClusterRecords(
        vote=vote,
        status=status,
        next_ledger_id=len(ledgers),
        ledgers={one.ledger_id: one for one in ledgers},
    )


def changes(before: ClusterRecords, after: ClusterRecords) -> list[Change]:
    return list(changes_between(before, after))


def test_without_a_change_there_is_no_event() -> None:
    assert changes(records(ledger()), records(ledger())) == []


def test_an_election_and_the_end_of_a_term_are_events() -> None:
    second = AuditorVote(candidate_id="host-2", token="u", elected_ms=9)
    kinds = [
        [(one.lane, one.kind, one.text) for one in changes(records(vote=a), records(vote=b))]
        for a, b in ((VOTE, None), (None, VOTE), (VOTE, second))
    ]
    assert kinds == [
        [("auditor", "no auditor", "host-1 audits no more")],
        [("auditor", "election", "host-1 is the auditor now")],
        [("auditor", "election", "host-2 is the auditor now")],
    ]


def test_what_the_auditor_tells_is_an_event_once() -> None:
    told = AuditorStatus(
        candidate_id="host-1", told_ms=1, lost=("b",), brake="waits", done="9 ledgers", done_ms=1
    )
    found = changes(records(), records(status=told))
    assert [(one.lane, one.kind) for one in found] == [
        ("b", "counts as lost"), ("auditor", "auditor waits"), ("auditor", "audited"),
    ]  # fmt: skip
    assert changes(records(status=told), records(status=told)) == []
    assert changes(records(status=told), records(status=None)) == []


def test_ledgers_that_left_one_bookie_are_one_event() -> None:
    before = [ledger(n) for n in range(6)]
    after = [one.with_new_fragment(100, ("a", "d", "c")) for one in before]
    assert changes(records(*before), records(*after)) == [
        Change("b", "ensemble change", "ledgers 0, 1, 2, 3 and 2 more replaced it by d")
    ]


@pytest.mark.parametrize(
    "after",
    [
        ledger().with_new_fragment(0, ("a", "b", "d")),  # it had no entries
        ledger().with_new_fragment(7, ("a", "b", "d")),
        ledger().with_new_fragment(7, ("a", "b", "d")).with_new_fragment(9, ("a", "b", "e")),
    ],
)
def test_every_way_to_change_an_ensemble_is_seen(after: LedgerMetadata) -> None:
    found = changes(records(ledger()), records(after))
    assert found[0] == Change("c", "ensemble change", "ledger 0 replaced it by d")
    assert len(found) == len({one.bookies for one in after.fragments} - {("a", "b", "c")})


def test_a_recovery_begins_and_ends() -> None:
    fenced = ledger().with_recovery()
    closed = fenced.with_closed_by_recovery(fenced.fragments, 9, 100)
    assert [one.kind for one in changes(records(ledger()), records(fenced))] == ["fenced"]
    assert [one.kind for one in changes(records(fenced), records(closed))] == ["recovered"]
    assert changes(records(ledger()), records(ledger().with_closed(9, 0))) == []


def test_a_bounded_number_of_open_ledgers_is_followed() -> None:
    store = MemoryStore(MemoryTree())
    initialise(store)
    ledgers = LedgerStore(store)
    for _ in range(LEDGER_COUNT_MAX + 20):
        ledgers.create(ledger)
    first = read_records(store, None)
    assert list(first.ledgers) == list(range(20, LEDGER_COUNT_MAX + 20))
    assert (first.vote, first.status) == (None, None)
    newest = LEDGER_COUNT_MAX + 19
    ledgers.update(newest, lambda one: one.with_closed(9, 0))
    ledgers.delete(newest - 1)
    CompareAndSwap(store).write(AUDITOR_LEADER, encode(VOTE), None)
    AuditorNotes(store).tell(STATUS)
    second = read_records(store, first)
    assert second.ledgers[newest].is_closed  # once, so that its end is seen
    assert newest - 1 not in second.ledgers
    assert (second.vote, second.status) == (VOTE, STATUS)
    assert newest not in read_records(store, second).ledgers
