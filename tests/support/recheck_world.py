"""The re-check of one ledger among bookies in memory, of which "a" may have lost entries."""

from zbk.durability.limbo_recheck import (
    LedgerRecheck,
    Patience,
    ReadClock,
    RecheckEffect,
    RecheckResult,
)
from zbk.errors import BookieUnavailableError, NoSuchLedgerError, UnknownLedgerStateError, ZbkError
from zbk.protocol.entry.spans import Span, merged
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.copy_order import LostEntries
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.repair_effects import CopyFragment, LedgerSeen, LookAtLedger, WaitUntil

LEDGER_ID = 7
Q332 = Quorum(3, 3, 2)
ABC = ("a", "b", "c")
PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
GRACE_MS = 60_000


def ledger(
    *fragments: Fragment, quorum: Quorum = Q332, kind: LedgerType = PD, last: int | None = None
) -> LedgerMetadata:
    """Return a ledger, closed if it has a last entry."""
    metadata = LedgerMetadata(
        ledger_id=LEDGER_ID,
        ensemble_size=quorum.ensemble_size,
        write_quorum_size=quorum.write_size,
        ack_quorum_size=quorum.ack_size,
        ledger_type=kind,
        digest_type=DigestType.XXH3,
        password_digest=b"",
        fragments=fragments or (Fragment(0, ABC),),
        created_ms=0,
        creation_token="token",
    )
    return metadata if last is None else metadata.with_closed(last, 0)


class World:
    """The entries of each bookie, and an attempt of bookie "a" to check the ledger."""

    def __init__(self, metadata: LedgerMetadata | None, **held: set[int]) -> None:
        self.metadata = metadata
        self.held = {"a": set[int](), **held}
        self.silent: set[str] = set()
        self.unreadable: set[int] = set()
        self.not_known: set[int] = set()  # entries that a peer in limbo does not know of
        self.asked: list[str] = []
        self.copied: list[tuple[Span, ...]] = []
        self.range_count_max = 1 << 20
        self.patience = Patience(GRACE_MS)
        self.now_ms = 0

    def attempt(self, *, has_lost_fences: bool) -> RecheckResult:
        """Go on to the end."""
        recheck = LedgerRecheck("a", has_lost_fences=has_lost_fences, patience=self.patience)
        effect = recheck.begin()
        for _ in range(1_000):
            if effect is None:
                return recheck.result
            effect = recheck.answer(self.carry_out(effect))
        raise AssertionError("it does not end")

    def carry_out(self, effect: RecheckEffect) -> object:
        """Return the answer to an effect."""
        match effect:
            case LookAtLedger():
                return self._look()
            case AskHoldings(bookie_id, span):
                return self._ask(bookie_id, span)
            case CopyFragment():
                return self._copy(effect)
            case WaitUntil(until_ms):
                assert until_ms > self.now_ms
                self.now_ms = until_ms
                return self.now_ms
            case ReadClock():
                return self.now_ms

    def _look(self) -> LedgerSeen | ZbkError:
        if self.metadata is None:
            return NoSuchLedgerError(LEDGER_ID)
        registered = frozenset(self.held) - self.silent
        return LedgerSeen(self.metadata, registered, self.now_ms, self.now_ms)

    def _ask(self, bookie_id: str, span: Span) -> Holdings | ZbkError:
        self.asked.append(bookie_id)
        if bookie_id in self.silent:
            return BookieUnavailableError(bookie_id, "not there")
        held = {one for one in self.held.get(bookie_id, set()) if span[0] <= one <= span[1]}
        ranges = tuple(merged((one, one) for one in held))
        if len(ranges) > self.range_count_max:  # a full page: the rest is asked for
            return Holdings(ranges[:1], ranges[0][1])
        return Holdings(ranges)

    def _copy(self, effect: CopyFragment) -> CopyResult:
        order = effect.order
        assert order.target == "a"
        self.copied.append(order.spans)
        quorum, count, lost = order.metadata.quorum, 0, []
        for entry_id in (i for first, last in order.spans for i in range(first, last + 1)):
            if not quorum.holds(order.slot, entry_id):
                continue
            assert entry_id not in self.held["a"], "it was there"
            holders = [
                order.fragment.bookies[s] for s in order.sources if quorum.holds(s, entry_id)
            ]
            assert holders, "somebody can be asked"
            if entry_id in self.not_known:
                error = UnknownLedgerStateError(LEDGER_ID, "b")
                return CopyResult(copied_count=count, source_error=error)
            if entry_id in self.unreadable or not any(entry_id in self.held[b] for b in holders):
                lost.append(LostEntries(entry_id, entry_id, 1, "gone"))
            else:
                self.held["a"].add(entry_id)
                count += 1
        return CopyResult(copied_count=count, lost=tuple(lost))


def ids(*spans: Span) -> set[int]:
    """Return the ids of all entries of some spans."""
    return {one for first, last in spans for one in range(first, last + 1)}
