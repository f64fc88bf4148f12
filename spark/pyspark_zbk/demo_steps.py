"""The steps of ``zbk demo spark``."""

from typing import TypeAlias

import msgspec


class ClusterStarted(msgspec.Struct, frozen=True, tag=True):
    """The metadata store and the bookies run."""

    metadata: str
    bookie_count: int
    seconds: float


class SparkStarted(msgspec.Struct, frozen=True, tag=True):
    """The Spark session runs."""

    version: str
    master: str
    seconds: float


class FrameRead(msgspec.Struct, frozen=True, tag=True):
    """The input was read once, for the comparison; Spark caches it."""

    description: str
    schema: str
    row_count: int
    hash: str
    seconds: float


class LedgerSeen(msgspec.Struct, frozen=True):
    """A ledger of the data set, from its metadata."""

    ledger_id: int
    partition: int  # -1: a manifest
    attempt: int
    state: str


class LookedMeanwhile(msgspec.Struct, frozen=True, tag=True):
    """The data set was inspected from outside while an attempt had written and not yet failed."""

    ledgers: list[LedgerSeen]
    refusal: str  # the error that a reader gets
    difference: str  # empty: nothing was visible


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """A load became a version."""

    version: int
    kind: str
    row_count: int
    size: int  # bytes of payload
    ledger_count: int
    leftover: list[LedgerSeen]  # of failed attempts: in no version
    seconds: float


class Compared(msgspec.Struct, frozen=True, tag=True):
    """A version was read and compared with the frame that was written."""

    what: str
    row_count: int
    hash: str
    aggregates: dict[str, str]
    seconds: float  # to read and hash it
    difference: str  # empty: the same


class LeftoverCollected(msgspec.Struct, frozen=True, tag=True):
    """``collect`` deleted the leftovers of failed attempts."""

    leftover: list[LedgerSeen]  # there before
    deleted_count: int
    difference: str  # empty: they are gone


class Timed(msgspec.Struct, frozen=True, tag=True):
    """The frame was loaded into ledgers of one type, in small entries; the best of two times."""

    ledger_type: str
    row_count: int
    entry_count: int
    size: int
    seconds: float


class Dropped(msgspec.Struct, frozen=True, tag=True):
    """A version was dropped, and its ledgers were collected."""

    version: int
    deleted_count: int


Step: TypeAlias = (
    ClusterStarted
    | SparkStarted
    | FrameRead
    | LookedMeanwhile
    | Loaded
    | Compared
    | LeftoverCollected
    | Timed
    | Dropped
)


def difference_of(step: Step) -> str:
    """Return the difference that a step found; empty if there is none, or it compares nothing."""
    match step:
        case LookedMeanwhile() | Compared() | LeftoverCollected():
            return step.difference
        case _:
            return ""
