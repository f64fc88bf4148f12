"""What a round of garbage collection is told, and what it wants done (``zbk.protocol.upkeep.gc``).

A *session* in an answer is a number that stays the same as long as the session with the metadata
store does; ``None`` if it ended, or was in doubt, at any time while the question was under way.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeAlias

import msgspec


class Finding(Enum):
    """What the metadata store answered when it was asked for one ledger, by its own node."""

    ABSENT = "absent"  # it said: there is no such ledger
    PRESENT = "present"  # there is, whatever its state
    UNKNOWN = "unknown"  # anything else: neither yes nor no


# ------------------------------------------------------------------ events


class RoundBegun(msgspec.Struct, frozen=True):
    """Find out what may go. The ids were gathered before anything was asked."""

    ledger_ids: Sequence[int]  # of which the bookie holds anything, each once


class CounterRead(msgspec.Struct, frozen=True):
    """Every ledger made before the question was asked has an id below this one."""

    next_ledger_id: int
    session: int | None
    is_emptied: bool = False  # the last ledger was deleted, and none was made since


class LedgersListed(msgspec.Struct, frozen=True):
    """A piece of the list of all ledgers."""

    ledger_ids: Sequence[int]
    is_last: bool
    session: int | None


class LedgersRead(msgspec.Struct, frozen=True):
    """The answers to one ``ReadMetadata``."""

    findings: Mapping[int, Finding]
    session: int | None


class MetadataFailed(msgspec.Struct, frozen=True):
    """The counter, the list or the nodes could not be read to the end."""

    reason: str


class TimePassed(msgspec.Struct, frozen=True):
    """It may be time."""


class LedgersDropped(msgspec.Struct, frozen=True):
    """The ledgers of one ``DropLedgers`` are gone, or as many of them as could go."""

    ledger_count: int  # gone
    why_left: str = ""  # why the others could not go


Event: TypeAlias = (
    RoundBegun
    | CounterRead
    | LedgersListed
    | LedgersRead
    | MetadataFailed
    | TimePassed
    | LedgersDropped
)


# ------------------------------------------------------------------ effects


class ReadCounter(msgspec.Struct, frozen=True):
    """Read the next ledger id, of this very cluster. Answer: CounterRead, MetadataFailed."""


class ListLedgers(msgspec.Struct, frozen=True):
    """List all ledgers. Answer: LedgersListed, one or more; or MetadataFailed."""


class ReadMetadata(msgspec.Struct, frozen=True):
    """Read the node of each ledger, by itself. Answer: LedgersRead, MetadataFailed."""

    ledger_ids: Sequence[int]


class Wait(msgspec.Struct, frozen=True):
    """Answer with TimePassed at that time, or later."""

    until_ms: int


class DropLedgers(msgspec.Struct, frozen=True):
    """Forget these ledgers, for ever. Answer: LedgersDropped."""

    ledger_ids: Sequence[int]


class RoundResult(msgspec.Struct, frozen=True):
    """What came of a round."""

    local_count: int = 0  # ledgers of which the bookie held anything
    listed_count: int = 0  # ledgers that the metadata store listed
    candidate_count: int = 0  # local ledgers that were not listed
    kept_count: int = 0  # candidates of which it could not be proved that they were deleted
    dropped_count: int = 0
    proof_count: int = 0  # how often the proof was begun: 2 and more when sessions ended
    gave_up: str = ""  # why the round ended early, or left what it had proved; empty: it did not
    is_suspicious: bool = False  # the metadata store contradicted itself
    is_stuck: bool = False  # what was proved to be deleted could not go


class EndRound(msgspec.Struct, frozen=True):
    """The round is over."""

    result: RoundResult


Effect: TypeAlias = ReadCounter | ListLedgers | ReadMetadata | Wait | DropLedgers | EndRound
