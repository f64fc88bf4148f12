"""A round of garbage collection: the proof that ledgers were deleted, before a bookie drops them.

A bookie may drop the data of a deleted ledger. A ledger missing from a list proves nothing by
itself, so a round gathers proof in this order:

    local     the ids of all ledgers that the bookie holds, gathered before the first request, so
              no ledger created meanwhile is among them
    counter   the next ledger id. A ledger's node and the counter change together, so an id below
              the counter had its node before; an id at or above it may be one that this store, or
              this follower of it, has not seen yet: never a candidate
    list      all ledgers of the cluster. Local ids that are not on it are *candidates*
    look      each candidate is read directly, by its own node: only "no such ledger" counts
    look      again, counter first, not before ``confirm_delay_ms`` have passed
    drop      the ledgers that were absent both times, in pieces

The whole proof lies within one session of the metadata store, in which no answer is older than the
one before. After a change of the session the proof begins again, with the counter, up to
``PROOF_COUNT_MAX`` times.

An *unreliable* list drops nothing at all: an empty one, one that ends with an error, one that
omits a ledger that exists (ids are never reused, so a ledger that exists now existed when the list
was made). Any answer except "no such ledger" keeps that ledger.

Decisions: an empty list is believed only if the counter, read before the list and again before the
second look, has the note that the last ledger was deleted and none was created since. The deletion
itself writes this note, in a step that the store refuses while there is a ledger
(``metadata.ledgers``); failed listings, and ledgers that vanish in another way, leave no such note.
Each candidate is read directly, which costs two reads for each deleted ledger.

Limits: ``CANDIDATE_COUNT_MAX`` candidates in one round, the lowest ids; the others wait for the
next one.

A procedure (``zbk.protocol.procedure``). A ledger is dropped only if it was absent in both looks of
one session. A *session* in an answer is a number that stays the same during one session with the
metadata store; ``None`` if the session ended, or was in doubt, at any time during the request.

Source: BookKeeper's ``ScanAndCompareGarbageCollector``; #870 for the distrust.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.procedure import Steps

CANDIDATE_COUNT_MAX: Final = 50_000
"""Candidates of one round."""

READ_COUNT_MAX: Final = 64
"""Ledgers in one ``ReadMetadata``: between two of them the bookie can stop."""

DROP_COUNT_MAX: Final = 128
"""Ledgers in one ``DropLedgers``, which takes the storage actor some milliseconds."""

PROOF_COUNT_MAX: Final = 3
"""The number of times that one round begins the proof."""

NONE_LISTED: Final = (
    "the metadata store lists no ledger at all, and has no note that the last one was deleted: if "
    "that is right, append to a new ledger and delete it (zbk ledger append, zbk ledger delete), "
    "and the next round frees everything"
)
"""The reason of a round that found an empty list without the note."""


# ------------------------------------------------------------------ effects and their answers


class ReadCounter(msgspec.Struct, frozen=True):
    """Read the next ledger id of this cluster. Answer: Counter, or an error."""


class Counter(msgspec.Struct, frozen=True):
    """Every ledger created before the request has an id below this one."""

    next_ledger_id: int
    session: int | None
    is_emptied: bool = False  # the last ledger was deleted, and none was created since


class ListLedgers(msgspec.Struct, frozen=True):
    """List all ledgers. Answer: the first ListPiece, or an error."""


class ListMore(msgspec.Struct, frozen=True):
    """Continue the list. Answer: the next ListPiece, or an error."""


class ListPiece(msgspec.Struct, frozen=True):
    """A piece of the list of all ledgers."""

    ledger_ids: Sequence[int]
    is_last: bool
    session: int | None


class ReadMetadata(msgspec.Struct, frozen=True):
    """Read the node of each ledger directly. Answer: Findings, or an error."""

    ledger_ids: Sequence[int]


class Finding(Enum):
    """The result of a direct read of one ledger."""

    ABSENT = "absent"  # there is no such ledger
    PRESENT = "present"  # it exists, in whatever state
    UNKNOWN = "unknown"  # any other answer


class Findings(msgspec.Struct, frozen=True):
    """The answers to one ``ReadMetadata``."""

    findings: Mapping[int, Finding]
    session: int | None


class Wait(msgspec.Struct, frozen=True):
    """Wait. Answer: the milliseconds that have passed; if too few, the round waits again."""

    delay_ms: int


class DropLedgers(msgspec.Struct, frozen=True):
    """Drop these ledgers for good. Answer: Dropped."""

    ledger_ids: Sequence[int]


class Dropped(msgspec.Struct, frozen=True):
    """The ledgers of one ``DropLedgers`` are dropped, as far as possible."""

    ledger_count: int  # dropped
    why_left: str = ""  # why the others could not be dropped


Effect: TypeAlias = ReadCounter | ListLedgers | ListMore | ReadMetadata | Wait | DropLedgers


class RoundResult(msgspec.Struct):
    """The outcome of a round."""

    local_count: int = 0  # ledgers that the bookie held
    listed_count: int = 0  # ledgers that the metadata store listed
    candidate_count: int = 0  # local ledgers that were not listed
    dropped_count: int = 0
    proof_count: int = 0  # proofs begun: 2 and more after the end of a session
    gave_up: str = ""  # why the round ended early, or dropped less than it had proved; or empty
    is_suspicious: bool = False  # the metadata store contradicted itself
    is_stuck: bool = False  # deleted ledgers could not be dropped

    @property
    def kept_count(self) -> int:
        """Candidates whose deletion was not proved, or that could not be dropped."""
        return self.candidate_count - self.dropped_count


# ------------------------------------------------------------------ the round


class _NewSession(Exception):  # noqa: N818 - not an error: the proof begins again
    pass


class _RoundEnded(Exception):  # noqa: N818 - not an error: the round ends early
    def __init__(self, reason: str, *, is_suspicious: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_suspicious = is_suspicious


def garbage_round(local_ids: Sequence[int], confirm_delay_ms: int) -> Steps[Effect, RoundResult]:
    """Drop the deleted ledgers among those of a bookie, each given once; return the result."""
    result = RoundResult(local_count=len(local_ids))
    try:
        deleted = yield from _deleted_among(local_ids, confirm_delay_ms, result)
        for ledger_ids in _pieces(deleted, DROP_COUNT_MAX):
            dropped: Dropped = yield DropLedgers(ledger_ids)
            result.dropped_count += dropped.ledger_count
            result.gave_up = dropped.why_left or result.gave_up
    except _RoundEnded as end:
        result.gave_up, result.is_suspicious = end.reason, end.is_suspicious
    except ZbkError as error:
        result.gave_up = str(error)
    else:
        result.is_stuck = bool(result.gave_up)
    return result


def _deleted_among(
    local_ids: Sequence[int], confirm_delay_ms: int, result: RoundResult
) -> Steps[Effect, list[int]]:
    """Return the ledgers that were certainly deleted, ascending."""
    if not local_ids:
        return []
    for _ in range(PROOF_COUNT_MAX):
        result.proof_count += 1
        result.listed_count = result.candidate_count = 0
        try:
            return (yield from _proof(local_ids, confirm_delay_ms, result))
        except _NewSession:
            continue
    raise _RoundEnded("the session with the metadata store did not last")


def _proof(
    local_ids: Sequence[int], confirm_delay_ms: int, result: RoundResult
) -> Steps[Effect, list[int]]:
    counter: Counter = yield ReadCounter()
    session = counter.session
    _check_session(session, session)
    candidates = yield from _unlisted(local_ids, counter, result)
    absent = yield from _look(candidates, session)
    if not absent:
        return []
    waited_ms = yield Wait(confirm_delay_ms)
    while waited_ms < confirm_delay_ms:
        waited_ms += yield Wait(confirm_delay_ms - waited_ms)
    again: Counter = yield ReadCounter()
    _check_session(again.session, session)
    if again.next_ledger_id < counter.next_ledger_id:
        raise _RoundEnded("the metadata store went back in time", is_suspicious=True)
    if not result.listed_count and not again.is_emptied:
        raise _RoundEnded("a ledger was created during the proof")
    return (yield from _look(absent, session))


def _unlisted(
    local_ids: Sequence[int], counter: Counter, result: RoundResult
) -> Steps[Effect, list[int]]:
    """Return the candidates, ascending."""
    unlisted = {one for one in local_ids if one < counter.next_ledger_id}
    piece: ListPiece = yield ListLedgers()
    while True:
        _check_session(piece.session, counter.session)
        listed = set(piece.ledger_ids)
        result.listed_count += len(listed)
        unlisted -= listed
        if piece.is_last:
            break
        piece = yield ListMore()
    candidates = sorted(unlisted)[:CANDIDATE_COUNT_MAX]
    result.candidate_count = len(candidates)
    if candidates and not result.listed_count and not counter.is_emptied:
        raise _RoundEnded(NONE_LISTED)
    return candidates


def _look(ledger_ids: Sequence[int], session: int | None) -> Steps[Effect, list[int]]:
    """Return the ledgers that do not exist, according to direct reads."""
    absent = []
    for some in _pieces(ledger_ids, READ_COUNT_MAX):
        answer: Findings = yield ReadMetadata(some)
        _check_session(answer.session, session)
        for ledger_id in some:
            found = answer.findings.get(ledger_id, Finding.UNKNOWN)
            if found is Finding.PRESENT:
                why = f"ledger {ledger_id} exists and was not listed"
                raise _RoundEnded(why, is_suspicious=True)
            if found is Finding.ABSENT:
                absent.append(ledger_id)
    return absent


def _check_session(found: int | None, session: int | None) -> None:
    if found is None or found != session:
        raise _NewSession


def _pieces(ledger_ids: Sequence[int], count_max: int) -> Iterator[tuple[int, ...]]:
    for first in range(0, len(ledger_ids), count_max):
        yield tuple(ledger_ids[first : first + count_max])
