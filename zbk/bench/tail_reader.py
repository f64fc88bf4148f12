"""A reader that follows a ledger in a process of its own, and says when it had each entry.

``python -m zbk.bench.tail_reader URI LEDGER_ID`` tells ``TailStarted`` when it has the first entry,
which is there before. When the ledger is closed it tells ``EntriesSeen`` again and again, in order,
until that is all: nothing is told while there is something to be measured.

Source of the times: CLOCK_MONOTONIC, which all processes of a machine share.
"""

import sys
from array import array
from typing import Final

import msgspec

from zbk.bench.program import tell
from zbk.client.api import connect
from zbk.client.tail import LedgerTail
from zbk.errors import NoSuchEntryError
from zbk.system.clock import monotonic_s

CHUNK_COUNT: Final = 1_024  # entries in one ``EntriesSeen``
SILENCE_TIMEOUT_S: Final = 60.0
"""How long no entry may come: whoever writes is gone then."""


class TailStarted(msgspec.Struct, frozen=True):
    """The reader follows."""


class EntriesSeen(msgspec.Struct, frozen=True):
    """When the application had entries, one after another."""

    first_entry_id: int
    seen_s: list[float]
    is_last: bool


def follow(uri: str, ledger_id: int) -> None:
    """Follow the ledger to its end, and tell."""
    with connect(uri) as client, client.open_ledger(ledger_id) as reader:
        seen_s = see(reader.tail(timeout=SILENCE_TIMEOUT_S))
        for first in range(0, max(1, len(seen_s)), CHUNK_COUNT):
            end = first + CHUNK_COUNT
            tell(EntriesSeen(first, list(seen_s[first:end]), is_last=end >= len(seen_s)))


def see(tail: LedgerTail) -> "array[float]":
    """Return when each entry came, by its id.

    Raises:
        NoSuchEntryError: one was left out.
    """
    seen_s = array("d")
    for entry in tail:
        seen_s.append(monotonic_s())
        if entry.entry_id != len(seen_s) - 1:
            raise NoSuchEntryError(entry.ledger_id, len(seen_s) - 1)
        if entry.entry_id == 0:
            tell(TailStarted())
    return seen_s


if __name__ == "__main__":
    follow(sys.argv[1], int(sys.argv[2]))
