"""How a ledger leaves limbo: what is asked, what is copied, and when it may be cleared. Pure.

One ``LedgerRecheck`` is one attempt at one ledger, and ends with it cleared or with the reason why
not; then it is tried again later. One thing is under way at a time: each effect is answered with
one event. The bookie whose ledger it is, *we*, is told by its id; its *peers* are the others in the
fragments that name it. A fragment that does not name us is nobody's business here.

After an unclean stop the ledgers of volatile levels are in question, and of these what was
acknowledged before an fsync. What we had, others were sent, too:

    every peer is asked what it holds, those in limbo, too; what one holds that is due here and is
    not here is copied; then the ledger is cleared. A peer that does not answer is waited for, but
    no longer than the grace: entries that were synced nowhere may get lost with several bookies.
    What a peer says it holds and does not give keeps the ledger in limbo.

After a loss of everything, of whatever kind, a closed fragment is to be here as its metadata say:

    all that is due here and is not here is copied, up to the fragment's end. What nobody can give
    any more keeps the ledger in limbo, and is told. So does what a peer does not know of, being in
    limbo itself; what lies behind that is copied all the same.

    The last fragment of a ledger that is not closed has no end: if it names us the ledger stays in
    limbo until somebody has recovered it, or its writer has taken another bookie; no waiting helps,
    as nobody else knows what we had.

A ledger that was deleted, or that does not name us, is cleared at once.

Decision: an add may reach a peer after that was asked, which a writer counts together with our
answer of before an unclean stop, if it has not noticed that stop by then. Such an entry is on that
peer only, and denied here. It takes a message that is older than our start.

Source: BookKeeper's ``bookie/datainteg/DataIntegrityCheckImpl`` (BP-46), which recovers every
ledger in limbo instead: its writers are stopped.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import msgspec

from zbk.durability.level import level_of
from zbk.durability.limbo_recheck_events import (
    AskPeer,
    ClearLedger,
    CopyEntries,
    Effect,
    EntriesCopied,
    Event,
    LedgerGone,
    LedgerSeen,
    LookFailed,
    PeerAnswered,
    PeerSilent,
    ReadMetadata,
    RecheckStarted,
    ReportLedger,
    TimePassed,
    WaitUntil,
)
from zbk.errors import UnknownLedgerStateError, ZbkError
from zbk.protocol.entry.spans import Span, merged, overlaps, spans_text
from zbk.protocol.entry.words import ENTRY_ID_MAX
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import CopyOrder, ends_of, missing_spans, without_source
from zbk.protocol.repair.fragment_copy_events import CopyResult

ASK_PAUSE_MS = 1_000
"""How long after one that did not answer the silent ones are asked again."""

SKIP_COUNT_MAX = 16
"""Entries of a fragment that a peer in limbo does not give, behind which it is gone on."""


# ------------------------------------------------------------------ what attempts share


class Patience:
    """Since when which bookie is silent: each is waited for once, not at every ledger again."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._silent_since_ms: dict[str, int] = {}

    def answered(self, bookie_id: str) -> None:
        """Note a sign of life."""
        self._silent_since_ms.pop(bookie_id, None)

    def silent(self, bookie_id: str, now_ms: int) -> None:
        """Note that one did not answer."""
        self._silent_since_ms.setdefault(bookie_id, now_ms)

    def is_over(self, bookie_id: str, now_ms: int) -> bool:
        """Return whether one is waited for no longer."""
        since_ms = self._silent_since_ms.get(bookie_id)
        return since_ms is not None and now_ms - since_ms >= self._grace_ms


class _Part(msgspec.Struct, frozen=True):
    """A fragment that names us, and what of it may be due here."""

    fragment: Fragment
    slot: int  # ours
    span: Span

    @property
    def peers(self) -> list[str]:
        return [b for slot, b in enumerate(self.fragment.bookies) if slot != self.slot]


class LedgerRecheck:
    """One attempt. ``RecheckStarted`` comes first.

    ``has_lost_fences``: after a loss of everything, else after an unclean stop.

    Invariants, checked in ``_check``:
      * an attempt that is not over waits for exactly one answer;
      * of a ledger that is cleared, every part was looked at, and nothing is owed.
    """

    def __init__(self, bookie_id: str, *, has_lost_fences: bool, patience: Patience) -> None:
        self._bookie_id = bookie_id
        self._has_lost_fences = has_lost_fences
        self._patience = patience
        self._metadata: LedgerMetadata | None = None
        self._registered: frozenset[str] = frozenset()
        self._parts: list[_Part] = []  # still to be done, the first one under way
        self._asked = ""
        self._to_ask: list[str] = []
        self._awaited: list[str] = []  # peers that did not answer yet
        self._own: tuple[Span, ...] | None = None
        self._start_id = 0  # of what is still to be copied of the part
        self._is_skipping = False
        self._skip_count = 0
        self._held: list[Span] = []  # by peers, in any order
        self._silent: set[str] = set()  # peers that were given up
        self._copied_count = 0
        self._problems: list[str] = []
        self._has_lost = False
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True after ``ClearLedger`` or ``ReportLedger``."""
        return self._is_over

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle the answer; return the one thing that is to be done next."""
        assert not self._is_over, "nothing follows the end"
        match event:
            case RecheckStarted():
                effect: Effect = ReadMetadata()
            case LedgerSeen():
                effect = self._on_seen(event, now_ms)
            case LedgerGone():
                effect = self._end()
            case LookFailed(error):
                effect = self._end(f"its metadata cannot be read: {error}")
            case PeerAnswered(ranges):
                effect = self._on_answered(ranges, now_ms)
            case PeerSilent(error):
                effect = self._on_silent(error, now_ms)
            case EntriesCopied(result):
                effect = self._on_copied(result, now_ms)
            case TimePassed():
                self._to_ask, self._awaited = self._awaited, []
                effect = self._go_on(now_ms)
            case _:
                assert_never(event)
        self._check(effect)
        return [effect]

    # ------------------------------------------------------------------ events

    def _on_seen(self, event: LedgerSeen, now_ms: int) -> Effect:
        metadata = self._metadata = event.metadata
        self._registered = event.registered
        is_volatile = level_of(metadata.ledger_type).acknowledges_after == "write"
        if self._has_lost_fences or is_volatile:
            self._parts = list(self._parts_of(metadata))
        return self._begin_part(now_ms)

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
                yield _Part(fragment, fragment.bookies.index(self._bookie_id), span)

    def _begin_part(self, now_ms: int) -> Effect:
        if not self._parts:
            return self._end(*self._problems)
        self._own = None
        self._start_id = self._parts[0].span[0]
        self._skip_count = 0
        self._is_skipping = False
        self._held = []
        self._awaited = []
        self._to_ask = [self._bookie_id]
        if not self._has_lost_fences:
            self._to_ask += self._parts[0].peers
        return self._go_on(now_ms)

    def _go_on(self, now_ms: int) -> Effect:
        part = self._parts[0]
        if self._to_ask:
            self._asked = self._to_ask.pop(0)
            return AskPeer(self._asked, part.span)
        if self._awaited:
            return WaitUntil(now_ms + ASK_PAUSE_MS)
        return self._copy(part, now_ms)

    def _on_answered(self, ranges: tuple[Span, ...], now_ms: int) -> Effect:
        if self._asked == self._bookie_id:
            self._own = ranges
        else:
            self._patience.answered(self._asked)
            self._held += ranges
        return self._go_on(now_ms)

    def _on_silent(self, error: ZbkError, now_ms: int) -> Effect:
        if self._asked == self._bookie_id:
            self._problems.append(f"this bookie cannot be asked what it holds: {error}")
            return self._end(*self._problems)
        self._patience.silent(self._asked, now_ms)
        if self._patience.is_over(self._asked, now_ms):
            self._silent.add(self._asked)
        else:
            self._awaited.append(self._asked)
        return self._go_on(now_ms)

    def _copy(self, part: _Part, now_ms: int) -> Effect:
        metadata = self._metadata
        assert metadata is not None, "it was seen"
        assert self._own is not None, "we were asked first"
        spans = self._missing(metadata, part, self._own)
        if self._is_skipping and spans:
            self._is_skipping = False
            self._start_id = spans[0][0] + 1
            spans = self._missing(metadata, part, self._own)
        if not self._has_lost_fences:
            spans = tuple(overlaps(spans, merged(self._held)))
        if not spans:
            del self._parts[0]
            return self._begin_part(now_ms)
        sources = tuple(
            slot
            for slot, bookie_id in enumerate(part.fragment.bookies)
            if slot != part.slot and bookie_id in self._registered
        )
        quorum = metadata.quorum
        away = tuple(one for one in spans if without_source(quorum, part.slot, one, sources))
        if away:  # of some of a span, at least: all of it is tried again
            self._problems.append(f"no peer is there that could give entries {spans_text(away)}")
            spans = tuple(one for one in spans if one not in away)
        if not spans:
            del self._parts[0]
            return self._begin_part(now_ms)
        is_open = part.span[1] == ENTRY_ID_MAX
        return CopyEntries(
            CopyOrder(
                metadata=metadata,
                fragment=part.fragment,
                slot=part.slot,
                target=self._bookie_id,
                spans=spans,
                sources=sources,
                lac=part.span[0] - 1 if is_open else part.span[1],
            )
        )

    def _missing(
        self, metadata: LedgerMetadata, part: _Part, own: tuple[Span, ...]
    ) -> tuple[Span, ...]:
        span = (self._start_id, part.span[1])
        return missing_spans(metadata.quorum, part.slot, span, own)

    def _on_copied(self, result: CopyResult, now_ms: int) -> Effect:
        self._copied_count += result.copied_count
        if not result.is_whole:
            self._problems.append(_problem(result))
            self._has_lost |= bool(result.lost)
            if self._may_skip(result):
                return self._skip()
        del self._parts[0]
        return self._begin_part(now_ms)

    def _may_skip(self, result: CopyResult) -> bool:
        """Return whether a peer does not know of an entry: it may well know those behind it."""
        is_unknown = isinstance(result.source_error, UnknownLedgerStateError)
        return is_unknown and self._skip_count < SKIP_COUNT_MAX

    def _skip(self) -> Effect:
        """Go on behind the first entry that is missing now: it is the one that was not given."""
        self._skip_count += 1
        self._is_skipping = True
        self._own = None
        self._to_ask = [self._bookie_id]
        return self._go_on(0)

    # ------------------------------------------------------------------ ends

    def _end(self, *problems: str) -> Effect:
        self._is_over = True
        if problems:
            reason = "; ".join(dict.fromkeys(problems))
            return ReportLedger(reason, self._copied_count, self._has_lost)
        return ClearLedger(self._copied_count, tuple(sorted(self._silent)))

    def _check(self, effect: Effect) -> None:
        assert self._is_over == isinstance(effect, ClearLedger | ReportLedger)
        if isinstance(effect, ClearLedger):
            assert not self._parts, "every part was looked at"
            assert not self._problems, "nothing is owed"


def listed_first(left: Sequence[Span], listed: Iterable[int]) -> Iterator[int]:
    """Yield the ledgers among ``left`` that are listed, then the others; both ascending.

    The list, ascending, says nothing but which ones are likely to be there.

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
