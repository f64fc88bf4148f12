"""RecoveryPump: a whole recovery against bookies and metadata in memory."""

from collections.abc import Callable, Collection, Sequence

import msgspec
import pytest

from tests.support.recovery_world import DIGEST, LEDGER_ID, Bookies, ledger, length_up_to
from tests.support.sessions import open_session
from zbk.client.cluster.ledger_calls import LedgerContext, LedgerRequests
from zbk.client.cluster.requests import Requests
from zbk.client.operations.recovery_pump import RecoveryPump, RecoverySetup
from zbk.config import ClientConfig
from zbk.errors import (
    ClientClosedError,
    LedgerRecoveryError,
    NotEnoughBookiesError,
    ZbkError,
)
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.protocol.entry.entry_batch import EntryBatch, sizes_from_wire
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.changes import begin_recovery, close_by_recovery
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import SendWrite
from zbk.transport.events import Reply, Sink
from zbk.wire.codec import decode_ids
from zbk.wire.messages import (
    Add,
    AddAnswer,
    Answer,
    LacAnswer,
    Message,
    Pong,
    Read,
    ReadAnswer,
    ReadLac,
)

Q332 = Quorum(3, 3, 2)


class Cluster(Requests):
    """Answers requests as bookies do, and chooses among spare ones."""

    def __init__(
        self, quorum: Quorum, *spare: str, digest_type: DigestType = DigestType.XXH3
    ) -> None:
        store = open_session("recovery")
        initialise(store)
        self.ledgers = LedgerStore(store, pause=lambda _s: None)
        self.tasks = UnderreplicationStore(store)
        plan = msgspec.structs.replace(ledger(quorum), digest_type=digest_type)
        self.spare = spare
        for _ in range(LEDGER_ID):
            self.ledgers.create(lambda ledger_id: _renumbered(plan, ledger_id))
        self.metadata, _ = self.ledgers.create(lambda ledger_id: _renumbered(plan, ledger_id))
        self.bookies = Bookies(*self.metadata.last_fragment.bookies, *spare)
        self.requests: list[Message] = []
        self.failed: list[str] = []
        self.before_send: Callable[[Message], None] = lambda _request: None
        self.is_garbled = False
        self.check_usable: Callable[[], None] = lambda: None

    def recover(self, timeout_s: float = 5.0) -> LedgerMetadata:
        metadata, _ = self.ledgers.update(LEDGER_ID, begin_recovery)
        setup = RecoverySetup(
            metadata=metadata,
            context=LedgerContext(
                LedgerRequests.of(metadata, b"k" * 16), self, DIGEST, ClientConfig()
            ),
            placer=self,
            ledgers=self.ledgers,
            tasks=self.tasks,
            check_usable=self.check_usable,
        )
        return RecoveryPump(setup).run(timeout_s)

    # -------------------------------------------------------------- what the pump asks

    def note_failed(self, bookie_ids: Collection[str]) -> None:
        self.failed += bookie_ids

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Collection[int],
        *,
        exclude: Collection[str],
        needs: Collection[str],
    ) -> dict[int, str]:
        del needs
        free = [b for b in self.spare if b not in {*ensemble, *exclude}]
        return dict(zip(failed_slots, free, strict=False))

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        del wait_ms, needs_own_try
        self.before_send(request)
        self.requests.append(request)
        if self.is_garbled:
            box.deliver([Reply(bookie_id, key, Pong(request_id=0))])
            return
        try:
            answer, body = self.answer(bookie_id, request, frames)
        except ZbkError as error:
            box.deliver([Reply(bookie_id, key, error)])
        else:
            box.deliver([Reply(bookie_id, key, answer, body)])

    def answer(
        self, bookie_id: str, request: Message, frames: tuple[bytes, ...]
    ) -> tuple[Answer, tuple[bytes, ...]]:
        bookie = self.bookies[bookie_id]
        match request:
            case ReadLac(is_fencing=True):
                return LacAnswer(request_id=0, lac=bookie.fence()), ()
            case Read(is_fencing=True):
                ids: Sequence[int] = range(request.first_entry_id, request.last_entry_id + 1)
                if request.is_striped:
                    ids = decode_ids(frames[0], 10_000)
                body = bookie.read(ids, 3)
                return ReadAnswer(request_id=0, count=1), (body,)
            case Add(is_recovery=True):
                first = request.first_entry_id
                added: Sequence[int] = range(first, first + request.count)
                if request.is_striped:
                    added = decode_ids(frames[2], 10_000)
                batch = EntryBatch(
                    request.ledger_id,
                    added,
                    sizes_from_wire(frames[0]),
                    frames[1],
                    request.checksum,
                )
                batch.validate()
                batch.verify()
                bookie.write_back(SendWrite(0, bookie_id, batch, request.lac))
                return AddAnswer(request_id=0), ()
            case _:
                raise AssertionError(f"nothing that fences or recovers: {request}")


def _renumbered(plan: LedgerMetadata, ledger_id: int) -> LedgerMetadata:
    return msgspec.structs.replace(plan, ledger_id=ledger_id)


@pytest.mark.parametrize("quorum", [Quorum(1, 1, 1), Q332, Quorum(5, 3, 2)], ids=str)
def test_a_ledger_is_closed_with_what_its_bookies_have(quorum: Quorum) -> None:
    cluster = Cluster(quorum)
    cluster.bookies.fill(cluster.metadata, 9, lac=4)

    closed = cluster.recover()

    assert (closed.last_entry_id, closed.length) == (9, length_up_to(9))
    assert cluster.ledgers.read(LEDGER_ID)[0] == closed


def test_who_closes_a_ledger_for_its_writer_has_its_bookies_compared() -> None:
    """The writer may have known of holes."""
    cluster = Cluster(Q332)
    cluster.bookies.fill(cluster.metadata, 9)

    cluster.recover()

    found = cluster.tasks.read(LEDGER_ID)
    assert found is not None
    unchecked = (MissingReason.UNCHECKED,)
    assert found[0].missing == {"b0": unchecked, "b1": unchecked, "b2": unchecked}
    assert (found[0].ranges, found[0].report_count) == ({}, 1)


def test_a_new_bookie_of_a_recovery_is_compared_too() -> None:
    cluster = Cluster(Q332, "b3")
    cluster.bookies.fill(cluster.metadata, 9)
    cluster.bookies["b0"].is_dead = True

    cluster.recover()

    found = cluster.tasks.read(LEDGER_ID)
    assert found is not None
    assert found[0].missing.keys() == {"b1", "b2", "b3"}


def test_of_an_empty_ledger_nothing_is_compared() -> None:
    cluster = Cluster(Q332)

    assert cluster.recover().last_entry_id == -1

    assert cluster.tasks.read(LEDGER_ID) is None


def test_a_bookie_that_fails_is_replaced_and_remembered() -> None:
    cluster = Cluster(Q332, "b3")
    cluster.bookies.fill(cluster.metadata, 9)
    cluster.bookies["b0"].is_dead = True

    closed = cluster.recover()

    assert cluster.failed == ["b0"]
    assert closed.fragments == (Fragment(0, ("b3", "b1", "b2")),)
    assert closed.last_entry_id == 9


def test_without_enough_bookies_the_ledger_stays_in_recovery() -> None:
    cluster = Cluster(Quorum(3, 3, 3))
    cluster.bookies.fill(cluster.metadata, 9)
    cluster.bookies["b2"].is_dead = True

    with pytest.raises(NotEnoughBookiesError):
        cluster.recover()

    assert cluster.ledgers.read(LEDGER_ID)[0].state == "IN_RECOVERY"


def test_time_that_is_over_ends_the_recovery() -> None:
    cluster = Cluster(Q332)
    for bookie in cluster.bookies:
        bookie.is_dead = True

    with pytest.raises(LedgerRecoveryError, match="time is over"):
        cluster.recover(timeout_s=0.05)


def test_answers_of_another_kind_are_failures() -> None:
    cluster = Cluster(Q332)
    cluster.is_garbled = True

    with pytest.raises(LedgerRecoveryError, match="an answer of another kind: Pong"):
        cluster.recover(timeout_s=0.5)


def test_who_fails_and_finds_the_ledger_closed_has_succeeded() -> None:
    """I15: somebody else closed it meanwhile."""
    cluster = Cluster(Q332)

    def close(_request: Message) -> None:
        for bookie in cluster.bookies:
            bookie.is_dead = True
        cluster.ledgers.update(LEDGER_ID, lambda m: close_by_recovery(m, (), 41, 4_100))

    cluster.before_send = close

    closed = cluster.recover(timeout_s=0.5)

    assert (closed.last_entry_id, closed.length) == (41, 4_100)


def test_who_comes_second_adopts_the_end_of_the_first() -> None:
    """I15: the compare-and-swap of the first one decides."""
    cluster = Cluster(Q332)
    cluster.bookies.fill(cluster.metadata, 9)

    def close(request: Message) -> None:
        if isinstance(request, Add):
            cluster.ledgers.update(LEDGER_ID, lambda m: close_by_recovery(m, (), -1, 0))

    cluster.before_send = close

    assert cluster.recover().last_entry_id == -1


def test_a_client_that_is_closed_meanwhile_says_so() -> None:
    cluster = Cluster(Q332)
    for bookie in cluster.bookies:
        bookie.is_dead = True

    def check() -> None:
        if cluster.requests:
            raise ClientClosedError

    cluster.check_usable = check

    with pytest.raises(ClientClosedError):
        cluster.recover()


def test_every_request_fences_or_is_a_recovery_add() -> None:
    cluster = Cluster(Q332)
    cluster.bookies.fill(cluster.metadata, 9)

    cluster.recover()

    assert cluster.requests, "`Cluster.answer` refuses all others"
    assert all(getattr(r, "ledger_key", None) == b"k" * 16 for r in cluster.requests)


@pytest.mark.parametrize("digest_type", DigestType)
def test_bookies_check_what_nobody_can_verify(digest_type: DigestType) -> None:
    """Damage of an entry without a digest was written back to all bookies of its ledger."""
    cluster = Cluster(Q332, digest_type=digest_type)

    cluster.recover()

    reads = [request for request in cluster.requests if isinstance(request, Read)]
    assert reads
    assert all(one.is_checked is (digest_type is DigestType.NONE) for one in reads)
