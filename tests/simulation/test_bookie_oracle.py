"""What the oracle of a bookie lets pass, and what not.

A wiped bookie may not deny what it had, as long as its ledger wants it there. A sync cursor counts
what is synced, and what a LAC confirms.
"""

import pytest

from tests.simulation.kernel import Kernel
from tests.simulation.oracle import BookieOracle
from tests.simulation.passwords import key_of
from tests.simulation.tape import Tape
from tests.support.batches import batch_of
from tests.support.ledgers import metadata_maker
from tests.support.storage_actor import OTHER_KEY, add, batch
from zbk.actors.serve.sync_queue import AppendGroup
from zbk.errors import LedgerFencedError, NoSuchEntryError, UnauthorizedError, ZbkError
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.storage.journal.record import EntriesRecord
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.codec import refusal
from zbk.wire.messages import Read, Sync, SyncAnswer

L = 3
EVERY_LEDGER = [(0, 99)]


OURS = metadata_maker(bookies=("ours", "b", "c"))(L)
OTHERS = metadata_maker(bookies=("a", "b", "c"))(L)


def store(oracle: BookieOracle) -> None:
    """Make a bookie with three entries on its disk, one of them acknowledged."""
    record = EntriesRecord(batch_of(L, range(3)))
    group = AppendGroup(1, [record], record.size, [], [], is_sync_news=False, is_sync_needed=True)
    oracle.synced([group])
    oracle.promised[L][0] = 1


@pytest.fixture
def oracle() -> BookieOracle:
    oracle = BookieOracle(Kernel(Tape(0)), "ours", range(1_000), range(1_000))
    store(oracle)
    oracle.wiped()
    return oracle


def denials(oracle: BookieOracle) -> list[str]:
    return [violation.invariant for violation in oracle.violations]


def test_what_is_wanted_here_and_not_here_again_may_not_be_denied(oracle: BookieOracle) -> None:
    oracle.losses.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == ["I24"]


def test_what_is_here_again_owes_nothing(oracle: BookieOracle) -> None:
    store(oracle)
    oracle.losses.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == []


def test_an_ensemble_that_names_it_later_counts_none_of_its_answers_of_before(
    oracle: BookieOracle,
) -> None:
    oracle.losses.cleared(EVERY_LEDGER, {L: OTHERS})
    oracle.losses.lost[L].add(7)  # at an unclean stop
    oracle.losses.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == []


def test_neither_does_one_that_names_it_again(oracle: BookieOracle) -> None:
    """Seed 500: its place was taken, and given back, while it was in limbo."""
    oracle.metadata_changed(OTHERS)
    oracle.metadata_changed(OURS)
    oracle.losses.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == []


@pytest.mark.parametrize(("ledger_id", "found"), [(L, []), (L + 1, ["I24"])])
def test_what_was_leaving_limbo_when_the_process_ended_may_be_denied(
    oracle: BookieOracle, ledger_id: int, found: list[str]
) -> None:
    """Seed 106010857: the file without the ledger was there, and the answer to that was not."""
    oracle.losses.lost[ledger_id].add(7)
    oracle.losses.clearing.append((L, L))
    read = Read(
        request_id=1,
        ledger_id=ledger_id,
        ledger_key=key_of(ledger_id),
        ledger_type=LedgerType.PD_JOURNAL,
        first_entry_id=7,
        last_entry_id=7,
        size_max=100,
    )
    inbound = Inbound(b"peer", read, (), 100)
    oracle.answered(Outbound(inbound, refusal(1, 3, NoSuchEntryError(ledger_id, 7))))

    assert denials(oracle) == found


def test_the_next_wipe_makes_it_owe_again(oracle: BookieOracle) -> None:
    oracle.losses.cleared(EVERY_LEDGER, {L: OTHERS})
    store(oracle)
    oracle.wiped()
    oracle.losses.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == ["I24"]


def copied(oracle: BookieOracle, entry_id: int, lac: int) -> None:
    """Deliver a copy of an entry, without a LAC but for the one in its header."""
    entry = batch(entry_id, [b"x"], ledger_id=L, lac=lac)
    request, *frames = add(entry, key=key_of(L), kind=LedgerType.VD_JOURNAL, is_recovery=True)
    oracle.received([Inbound(b"peer", request, tuple(frames), 100)])


def sync(key: bytes) -> Inbound:
    """Return a request to sync, from a client with this key."""
    request = Sync(request_id=1, incarnation=3, ledger_id=L, ledger_key=key, lac=NO_ENTRY)
    return Inbound(b"peer", request, (), 100)


def told(oracle: BookieOracle, last_add_synced: int, key: bytes = key_of(L)) -> None:
    """Make it answer a sync."""
    answer = SyncAnswer(request_id=1, last_add_synced=last_add_synced)
    oracle.answered(Outbound(sync(key), answer))


def refused(oracle: BookieOracle, error: ZbkError, key: bytes) -> None:
    """Make it refuse a sync."""
    oracle.answered(Outbound(sync(key), refusal(1, 3, error)))


@pytest.mark.parametrize(("last_add_synced", "denied"), [(2, []), (14, []), (15, ["I21"])])
def test_the_lac_in_the_header_of_a_copy_lifts_the_sync_cursor_and_no_further(
    last_add_synced: int, denied: list[str]
) -> None:
    """Seed 750993: entries 0-2 and 19 are here; 19 says that 14 is confirmed."""
    oracle = BookieOracle(Kernel(Tape(0)), "ours", range(1_000), range(1_000))
    store(oracle)
    copied(oracle, 19, lac=14)

    told(oracle, last_add_synced)

    assert denials(oracle) == denied


def test_a_wrong_key_is_to_be_refused() -> None:
    oracle = BookieOracle(Kernel(Tape(0)), "ours", range(1_000), range(1_000))

    refused(oracle, UnauthorizedError(L), OTHER_KEY)
    assert denials(oracle) == []

    told(oracle, NO_ENTRY, OTHER_KEY)
    assert denials(oracle) == ["key"]


def test_a_ledger_that_nobody_recovers_is_not_fenced() -> None:
    oracle = BookieOracle(Kernel(Tape(0)), "ours", range(1_000), range(1_000))
    oracle.metadata_changed(OURS)

    refused(oracle, LedgerFencedError(L), key_of(L))

    assert denials(oracle) == ["key"]
