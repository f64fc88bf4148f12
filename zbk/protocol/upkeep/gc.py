"""Which ledgers a bookie may drop: one round of garbage collection.

A ledger's data may go when the ledger was deleted. What is not there proves nothing by itself, so
a round is slow to believe, in this order:

    local     the ids of which the bookie holds anything: gathered before anything is asked, so no
              ledger made meanwhile is among them
    counter   the next ledger id. A ledger's node and the counter change together, so an id below
              the counter had its node before; an id at or above it may be one that this store, or
              this follower of it, has not heard of yet: never a candidate
    list      all ledgers of the cluster. Local ids that are not on it are *candidates*
    look      each candidate is asked for directly, by its own node: only "no such ledger" counts
    look      again, counter first, no sooner than ``confirm_delay_ms`` later
    drop      what was absent both times, in pieces

All of it within one session of the metadata store, in which no answer is older than the one
before: when another one shows, the proof begins anew, from the counter on, up to
``PROOF_COUNT_MAX`` times.

An *unreliable* list drops nothing at all: an empty one, one that ends with an error, one that
leaves out a ledger that is there (ids are never given out twice, so what is there was there when
the list was made). Any answer but "no such ledger" keeps that ledger.

Decisions: an empty list is believed only if the counter, read before the list and again before the
second look, says that the last ledger was deleted and none was made since. That note comes from the
deletion itself, in a step that the store refuses while there is a ledger (``metadata.ledgers``); a
listing that failed, or ledgers that vanished in another way, leave no such note. A candidate is
looked at with a read of its own, at the cost of two reads a deleted ledger.

Limits: ``CANDIDATE_COUNT_MAX`` candidates a round, the lowest ids; the others wait for the next.

Invariants, checked in ``_check``:
  * one question is under way at a time;
  * nothing is dropped that was not found absent in both looks of one session.

Source: BookKeeper's ``ScanAndCompareGarbageCollector``; #870 for the distrust.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, assert_never

from zbk.protocol.upkeep.gc_events import (
    CounterRead,
    DropLedgers,
    Effect,
    EndRound,
    Event,
    Finding,
    LedgersDropped,
    LedgersListed,
    LedgersRead,
    ListLedgers,
    MetadataFailed,
    ReadCounter,
    ReadMetadata,
    RoundBegun,
    RoundResult,
    TimePassed,
    Wait,
)

CANDIDATE_COUNT_MAX: Final = 50_000
"""Candidates of one round."""

READ_COUNT_MAX: Final = 64
"""Ledgers in one ``ReadMetadata``: between two the bookie can stop."""

DROP_COUNT_MAX: Final = 128
"""Ledgers in one ``DropLedgers``: the storage actor is at it for some milliseconds."""

PROOF_COUNT_MAX: Final = 3
"""How often the proof is begun in one round."""


NONE_LISTED: Final = (
    "the metadata store lists no ledger at all, and has no note that the last one was deleted: if "
    "that is right, append to a new ledger and delete it (zbk ledger append, zbk ledger delete), "
    "and the next round frees everything"
)
"""Why nothing is dropped where the list is empty and nothing confirms it."""


class _Phase(Enum):
    COUNTING = "counting"  # the counter is being read, for the list
    LISTING = "listing"
    LOOKING = "looking"  # for the first time
    WAITING = "waiting"
    COUNTING_AGAIN = "counting again"  # for the second look
    LOOKING_AGAIN = "looking again"
    DROPPING = "dropping"
    OVER = "over"


class GarbageRound:
    """One round. ``RoundBegun`` comes first; nothing follows ``EndRound``."""

    def __init__(self, confirm_delay_ms: int) -> None:
        self._confirm_delay_ms = confirm_delay_ms
        self._phase: _Phase | None = None
        self._local: tuple[int, ...] = ()
        self._session: int | None = None
        self._proof_count = 0
        self._look_at_ms = 0
        self._next_ledger_id = 0
        self._is_emptied = False  # the counter says that no ledger is left
        self._listed_count = 0
        self._unlisted: set[int] = set()
        self._candidate_count = 0
        self._to_read: list[int] = []  # of the look under way, descending
        self._absent: list[int] = []  # so far, in the look under way; ascending
        self._asked: tuple[int, ...] = ()  # of the ``ReadMetadata`` under way
        self._to_drop: list[int] = []  # descending
        self._dropped_count = 0
        self._why_left = ""  # what was proved to be deleted could not go

    @property
    def is_over(self) -> bool:
        """True after ``EndRound``."""
        return self._phase is _Phase.OVER

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return what is to be done. After the end all is late news."""
        if self.is_over:
            return []
        match event:
            case RoundBegun(ledger_ids):
                assert self._phase is None, "a round begins once"
                self._local = tuple(sorted(ledger_ids))
                effects = self._begin_proof()
            case CounterRead():
                effects = self._on_counter(event)
            case LedgersListed(ledger_ids, is_last, session):
                effects = self._on_list(ledger_ids, is_last=is_last, session=session)
            case LedgersRead(findings, session):
                effects = self._on_read(findings, session, now_ms)
            case MetadataFailed(reason):
                effects = self._end(reason)
            case TimePassed():
                effects = self._on_time(now_ms)
            case LedgersDropped(ledger_count, why_left):
                self._dropped_count += ledger_count
                self._why_left = why_left or self._why_left
                effects = self._drop_some()
            case _:
                assert_never(event)
        self._check()
        return effects

    # ------------------------------------------------------------------ the proof

    def _begin_proof(self) -> list[Effect]:
        if not self._local:
            return self._end("")
        if self._proof_count == PROOF_COUNT_MAX:
            return self._end("the session with the metadata store did not last")
        self._proof_count += 1
        self._session = None
        self._listed_count = self._candidate_count = 0
        self._absent, self._to_read, self._asked = [], [], ()
        self._phase = _Phase.COUNTING
        return [ReadCounter()]

    def _on_counter(self, counter: CounterRead) -> list[Effect]:
        next_ledger_id, session = counter.next_ledger_id, counter.session
        if self._phase is _Phase.COUNTING:
            if session is None:
                return self._begin_proof()
            self._session = session
            self._next_ledger_id = next_ledger_id
            self._is_emptied = counter.is_emptied
            self._unlisted = {one for one in self._local if one < next_ledger_id}
            self._phase = _Phase.LISTING
            return [ListLedgers()]
        assert self._phase is _Phase.COUNTING_AGAIN, "nobody asked"
        if session != self._session:
            return self._begin_proof()
        if next_ledger_id < self._next_ledger_id:
            return self._end("the metadata store went back in time", is_suspicious=True)
        if not self._listed_count and not counter.is_emptied:
            return self._end("a ledger was made while the last one was looked for")
        absent, self._absent = self._absent, []
        return self._look(_Phase.LOOKING_AGAIN, absent)

    def _on_list(
        self, ledger_ids: Iterable[int], *, is_last: bool, session: int | None
    ) -> list[Effect]:
        assert self._phase is _Phase.LISTING, "nobody asked"
        if session != self._session:
            return self._begin_proof()
        listed = set(ledger_ids)
        self._listed_count += len(listed)
        self._unlisted -= listed
        if not is_last:
            return []
        candidates = sorted(self._unlisted)[:CANDIDATE_COUNT_MAX]
        self._unlisted = set()
        self._candidate_count = len(candidates)
        if not self._listed_count and candidates and not self._is_emptied:
            return self._end(NONE_LISTED)
        return self._look(_Phase.LOOKING, candidates)

    def _look(self, phase: _Phase, ledger_ids: Sequence[int]) -> list[Effect]:
        if not ledger_ids:
            return self._end("")
        self._phase = phase
        self._to_read = sorted(ledger_ids, reverse=True)
        return self._read_some()

    def _read_some(self) -> list[Effect]:
        self._asked = _take(self._to_read, READ_COUNT_MAX)
        return [ReadMetadata(self._asked)]

    def _on_read(
        self, findings: Mapping[int, Finding], session: int | None, now_ms: int
    ) -> list[Effect]:
        assert self._phase in (_Phase.LOOKING, _Phase.LOOKING_AGAIN), "nobody asked"
        if session is None or session != self._session:
            return self._begin_proof()
        asked, self._asked = self._asked, ()
        for ledger_id in asked:
            found = findings.get(ledger_id, Finding.UNKNOWN)
            if found is Finding.PRESENT:
                why = f"ledger {ledger_id} is there and was not listed"
                return self._end(why, is_suspicious=True)
            if found is Finding.ABSENT:
                self._absent.append(ledger_id)
        if self._to_read:
            return self._read_some()
        if self._phase is _Phase.LOOKING_AGAIN:
            self._phase = _Phase.DROPPING
            self._to_drop = sorted(self._absent, reverse=True)
            return self._drop_some()
        if not self._absent:
            return self._end("")
        self._phase = _Phase.WAITING
        self._look_at_ms = now_ms + self._confirm_delay_ms
        return [Wait(self._look_at_ms)]

    def _on_time(self, now_ms: int) -> list[Effect]:
        if self._phase is not _Phase.WAITING:
            return []  # late
        if now_ms < self._look_at_ms:
            return [Wait(self._look_at_ms)]
        self._phase = _Phase.COUNTING_AGAIN
        return [ReadCounter()]

    # ------------------------------------------------------------------ the end

    def _drop_some(self) -> list[Effect]:
        assert self._phase is _Phase.DROPPING, "the proof comes first"
        some = _take(self._to_drop, DROP_COUNT_MAX)
        return [DropLedgers(some)] if some else self._end("")

    def _end(self, gave_up: str, *, is_suspicious: bool = False) -> list[Effect]:
        self._phase = _Phase.OVER
        result = RoundResult(
            local_count=len(self._local),
            listed_count=self._listed_count,
            candidate_count=self._candidate_count,
            kept_count=self._candidate_count - self._dropped_count,
            dropped_count=self._dropped_count,
            proof_count=self._proof_count,
            gave_up=gave_up or self._why_left,
            is_stuck=bool(self._why_left),
            is_suspicious=is_suspicious,
        )
        return [EndRound(result)]

    def _check(self) -> None:
        is_looking = self._phase in (_Phase.LOOKING, _Phase.LOOKING_AGAIN)
        assert bool(self._asked) is is_looking or self.is_over, "one question at a time"
        assert not self._to_drop or self._phase is _Phase.DROPPING or self.is_over, (
            "both looks come first"
        )
        assert self._session is not None or self._phase in (_Phase.COUNTING, _Phase.OVER)


def _take(descending: list[int], count: int) -> tuple[int, ...]:
    """Remove the lowest ids and return them, ascending."""
    some = tuple(reversed(descending[-count:]))
    del descending[-count:]
    return some
