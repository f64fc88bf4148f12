"""The re-check of one ledger in limbo: which entries are copied, and when the ledger is cleared.

One ``LedgerRecheck`` is one attempt. It ends with the ledger cleared, or with the reason why it
stays in limbo; then another attempt follows later. *This bookie* is the one in limbo; its *peers*
are the other bookies in the fragments that name it. Fragments that do not name it are not checked.

After an unclean stop, ledgers of volatile levels are in question, and of these the entries that
were acknowledged before an fsync. Other bookies were sent the same entries:

    Every peer is asked what it holds, also one in limbo. Entries that a peer holds on its slot,
    that are due here and that are missing here are copied; then the ledger is cleared. The re-check
    waits for a peer that does not answer, but no longer than the grace period: entries that no
    bookie synced may be lost together with several bookies. Entries that a peer holds but does not
    give keep the ledger in limbo.

After a loss of everything, at any level, this bookie must hold a closed fragment as its metadata
say:

    All entries that are due here and missing here are copied, up to the fragment's end. Entries
    that no peer can give keep the ledger in limbo, and are reported. So do entries that a peer
    does not know of because it is in limbo itself; the entries after those are copied all the same.

    The last fragment of an open ledger has no end. If it names this bookie, the ledger stays in
    limbo until a client has recovered it, or until its writer has replaced this bookie. Waiting
    does not help: no other bookie knows which entries were here.

A ledger that was deleted, or that does not name this bookie, is cleared at once.

A procedure (``zbk.protocol.procedure``), pure. Its effects are those that it shares with repairs
(``repair_effects``), and ``ReadClock``. It holds no lock: one thread runs it.

Decision: a writer that has not noticed an unclean stop may count the answer of before the stop
together with an add that reaches a peer after the peer was asked. Such an entry is on that peer
only, and this bookie denies it. It takes a message that is older than this bookie's start.

Source: BookKeeper's ``bookie/datainteg/DataIntegrityCheckImpl`` (BP-46), which recovers every
ledger in limbo instead: its writers are stopped.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final, TypeAlias

import msgspec

from zbk.durability.level import level_of
from zbk.errors import NoSuchLedgerError, UnknownLedgerStateError, ZbkError
from zbk.protocol.entry.spans import Span, merged, overlaps, spans_text
from zbk.protocol.entry.words import ENTRY_ID_MAX
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.procedure import Procedure, Steps
from zbk.protocol.repair.copy_order import (
    CopyOrder,
    due_runs,
    ends_of,
    missing_spans,
    without_source,
)
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.repair_effects import (
    CopyFragment,
    LedgerSeen,
    LookAtLedger,
    SharedEffect,
    WaitUntil,
)

ASK_PAUSE_MS = 1_000
"""The pause before silent peers are asked again."""

SKIP_COUNT_MAX = 16
"""Entries of one fragment that a peer in limbo does not give and that are skipped."""


class ReadClock(msgspec.Struct, frozen=True):
    """Read the clock. Answer: the time, in ms."""


RecheckEffect: TypeAlias = SharedEffect | ReadClock


class RecheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attempt: the ledger is cleared, unless there is a ``reason``."""

    reason: str = ""  # why it stays in limbo
    copied_count: int = 0
    silent: tuple[str, ...] = ()  # peers that the re-check no longer waited for
    is_hopeless: bool = False  # attempts end like this one until lost entries are found again

    @property
    def is_cleared(self) -> bool:
        """True when this bookie may deny what it does not have of the ledger."""
        return not self.reason


ROUND_PAUSE_S: Final = 2.0
"""The pause after a round that cleared a ledger; every other round doubles it."""

ROUND_PAUSE_MAX_S: Final = 60.0


def next_pause_s(pause_s: float, *, has_cleared: bool) -> float:
    """Return the pause after a round, given the pause before it. A round may end with an error.

    >>> next_pause_s(8.0, has_cleared=False), next_pause_s(8.0, has_cleared=True)
    (16.0, 2.0)
    """
    return ROUND_PAUSE_S if has_cleared else min(2 * pause_s, ROUND_PAUSE_MAX_S)


class Patience:
    """The times since when peers are silent. Attempts share it: each peer is waited for once."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._silent_since_ms: dict[str, int] = {}

    def answered(self, bookie_id: str) -> None:
        """Record that a bookie answered."""
        self._silent_since_ms.pop(bookie_id, None)

    def silent(self, bookie_id: str, now_ms: int) -> None:
        """Record that a bookie did not answer."""
        self._silent_since_ms.setdefault(bookie_id, now_ms)

    def is_over(self, bookie_id: str, now_ms: int) -> bool:
        """Return whether a bookie has been silent for the grace period."""
        since_ms = self._silent_since_ms.get(bookie_id)
        return since_ms is not None and now_ms - since_ms >= self._grace_ms


class _Part(msgspec.Struct, frozen=True):
    """A fragment that names this bookie, and the span of it that may be due here."""

    metadata: LedgerMetadata
    fragment: Fragment
    slot: int  # this bookie's
    span: Span

    @property
    def peers(self) -> list[tuple[int, str]]:
        return [one for one in enumerate(self.fragment.bookies) if one[0] != self.slot]

    def missing(self, first_entry_id: int, own: Sequence[Span]) -> tuple[Span, ...]:
        span = (first_entry_id, self.span[1])
        return missing_spans(self.metadata.quorum, self.slot, span, own)


class LedgerRecheck(Procedure[RecheckEffect, RecheckResult]):
    """One attempt. ``has_lost_fences``: after a loss of everything, else after an unclean stop."""

    def __init__(self, bookie_id: str, *, has_lost_fences: bool, patience: Patience) -> None:
        super().__init__(self._check_ledger())
        self._bookie_id = bookie_id
        self._has_lost_fences = has_lost_fences
        self._patience = patience
        self._silent: set[str] = set()
        self._copied_count = 0
        self._problems: list[str] = []
        self._has_lost = False

    def _check_ledger(self) -> Steps[RecheckEffect, RecheckResult]:
        try:
            seen: LedgerSeen = yield LookAtLedger()
        except NoSuchLedgerError:
            return RecheckResult()
        except ZbkError as error:
            return RecheckResult(reason=f"its metadata cannot be read: {error}")
        is_volatile = level_of(seen.metadata.ledger_type).acknowledges_after == "write"
        if self._has_lost_fences or is_volatile:
            yield from self._restore_all(list(self._parts_of(seen.metadata)), seen.registered)
        if self._problems:
            reason = "; ".join(dict.fromkeys(self._problems))
            copied_count = self._copied_count
            return RecheckResult(
                reason=reason, copied_count=copied_count, is_hopeless=self._has_lost
            )
        return RecheckResult(copied_count=self._copied_count, silent=tuple(sorted(self._silent)))

    def _parts_of(self, metadata: LedgerMetadata) -> Iterator[_Part]:
        for fragment, end in zip(metadata.fragments, ends_of(metadata), strict=True):
            if self._bookie_id not in fragment.bookies:
                continue
            if end is None and self._has_lost_fences:
                self._problems.append(
                    "it is not closed, and its last ensemble has this bookie: recover the ledger, "
                    "or wait for its writer to close it"
                )
                continue
            span = (fragment.first_entry_id, ENTRY_ID_MAX if end is None else end)
            if span[0] <= span[1]:
                yield _Part(metadata, fragment, fragment.bookies.index(self._bookie_id), span)

    def _restore_all(
        self, parts: Sequence[_Part], registered: frozenset[str]
    ) -> Steps[RecheckEffect, None]:
        try:
            for part in parts:
                yield from self._restore(part, registered)
        except ZbkError as error:
            self._problems.append(f"this bookie cannot be asked what it holds: {error}")

    def _restore(self, part: _Part, registered: frozenset[str]) -> Steps[RecheckEffect, None]:
        """Copy what is missing of a part.

        Raises:
            ZbkError: this bookie does not answer.
        """
        own = yield from self._holdings(self._bookie_id, part.span)
        wanted = [part.span]
        if not self._has_lost_fences:
            wanted = yield from self._held_by_peers(part)
        first_entry_id = part.span[0]
        for skip_count in count():
            spans = tuple(overlaps(part.missing(first_entry_id, own), wanted))
            order = self._order(part, spans, registered)
            if order is None:
                return
            copied: CopyResult = yield CopyFragment(order)
            self._copied_count += copied.copied_count
            if copied.is_whole:
                return
            self._problems.append(_problem(copied))
            self._has_lost |= bool(copied.lost)
            # a peer that does not know of an entry may well know of those after it
            is_unknown = isinstance(copied.source_error, UnknownLedgerStateError)
            if not is_unknown or skip_count == SKIP_COUNT_MAX:
                return
            own = yield from self._holdings(self._bookie_id, part.span)
            for first, _ in part.missing(first_entry_id, own)[:1]:
                first_entry_id = first + 1

    def _held_by_peers(self, part: _Part) -> Steps[RecheckEffect, list[Span]]:
        """Ask all peers what they hold, silent ones again and again; return what any holds.

        Only of what is due on its slot: a peer may hold more from a slot that it had before, and
        neither a copy nor a reader asks it for that.
        """
        held: list[Span] = []
        to_ask = part.peers
        while to_ask:
            awaited: list[tuple[int, str]] = []
            for slot, peer in to_ask:
                try:
                    found = yield from self._holdings(peer, part.span)
                    held += due_runs(part.metadata.quorum, slot, found)
                    self._patience.answered(peer)
                except ZbkError:
                    now_ms = yield ReadClock()
                    self._patience.silent(peer, now_ms)
                    if self._patience.is_over(peer, now_ms):
                        self._silent.add(peer)
                    else:
                        awaited.append((slot, peer))
            to_ask = awaited
            if to_ask:
                yield WaitUntil((yield ReadClock()) + ASK_PAUSE_MS)
        return merged(held)

    def _holdings(self, bookie_id: str, span: Span) -> Steps[RecheckEffect, list[Span]]:
        """Return what a bookie holds of a span.

        Raises:
            ZbkError: it does not answer.
        """
        ranges: list[Span] = []
        first, last = span
        while first <= last:
            held: Holdings = yield AskHoldings(bookie_id, (first, last))
            ranges += held.ranges
            first = (last if held.last_entry_id is None else held.last_entry_id) + 1
        return ranges

    def _order(
        self, part: _Part, spans: tuple[Span, ...], registered: frozenset[str]
    ) -> CopyOrder | None:
        """Return the order to copy what registered peers may have of spans; ``None``: nothing."""
        sources = tuple(
            slot
            for slot, bookie_id in enumerate(part.fragment.bookies)
            if slot != part.slot and bookie_id in registered
        )
        quorum = part.metadata.quorum
        away = tuple(one for one in spans if without_source(quorum, part.slot, one, sources))
        if away:  # of some of a span, at least: all of it is tried again
            self._problems.append(f"no peer is there that could give entries {spans_text(away)}")
            spans = tuple(one for one in spans if one not in away)
        if not spans:
            return None
        is_open = part.span[1] == ENTRY_ID_MAX
        return CopyOrder(
            metadata=part.metadata,
            fragment=part.fragment,
            slot=part.slot,
            target=self._bookie_id,
            spans=spans,
            sources=sources,
            lac=part.span[0] - 1 if is_open else part.span[1],
        )


def listed_first(left: Sequence[Span], listed: Iterable[int]) -> Iterator[int]:
    """Yield the ledgers among ``left`` that are listed, then the others; both ascending.

    The list, ascending, says only which ledgers probably exist.

    >>> list(listed_first([(0, 3), (6, 6)], [1, 2, 7]))
    [1, 2, 0, 3, 6]
    """
    known = list(listed)
    for first, last in left:
        yield from known[bisect_left(known, first) : bisect_right(known, last)]
    for first, last in left:
        start = first
        for ledger_id in known[bisect_left(known, first) : bisect_right(known, last)]:
            yield from range(start, ledger_id)
            start = ledger_id + 1
        yield from range(start, last + 1)


def _problem(result: CopyResult) -> str:
    if result.lost:
        return "no peer has these any more: " + "; ".join(map(str, result.lost))
    error = result.source_error or result.target_error
    return "it was told to stop" if error is None else f"entries could not be copied: {error}"
