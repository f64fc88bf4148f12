"""What all inspections of files have in common: findings, and what they amount to.

An inspection looks at one file as it lies there, whatever its name and place: a bookie's, which may
run, or a copy. It only ever opens it to read, and takes no lock. It goes on after damage where it
can. Used by ``zbk inspect`` and by no bookie.

Words: a *fault* is a part of the file that is not what it should be. The *verdict* is about the
whole file; ``CLEAN`` is said only if every byte that some checksum covers passed it.
"""

from enum import StrEnum
from pathlib import PurePath

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """What is wrong, and where."""

    offset: int
    size: int  # bytes that are of no use; 0 where a place and no extent is known
    reason: str


class Verdict(StrEnum):
    """What an inspection amounts to."""

    CLEAN = "clean"
    OPEN_END = "open end"  # after what is whole lie bytes of which nothing can be told
    UNUSED = "unused"  # made for later
    DAMAGED = "damaged"


def id_in_name(path: str, digit_count: int) -> int | None:
    """Return the id that the name of a file of a bookie says; ``None`` for any other name.

    >>> id_in_name("/copy/0000001f.log", 8), id_in_name("/copy/some.log", 8)
    (31, None)
    """
    stem = PurePath(path).name.partition(".")[0]
    if len(stem) != digit_count or not set(stem) <= set("0123456789abcdef"):
        return None
    return int(stem, 16)
