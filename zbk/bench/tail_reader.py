"""Program of a reader that follows ledgers and reports when it had each entry.

``python -m zbk.bench.tail_reader URI LEDGER_ID...`` writes ``TailStarted`` when it has the first
entry of each ledger, which exists before. When all ledgers are closed it writes ``EntriesSeen``,
once for each part, in order: nothing is written during the measurement. A tail follows one ledger,
a group of tails follows several, in one thread.

The times are those of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from zbk.bench.program import report
from zbk.client.api import Client, connect
from zbk.errors import NoSuchEntryError
from zbk.protocol.entry.entry import Entry
from zbk.system.clock import monotonic_s

CHUNK_COUNT: Final = 1_024  # entries in one ``EntriesSeen``
SILENCE_TIMEOUT_S: Final = 60.0
"""Time without an entry after which the writer counts as gone."""


class TailStarted(msgspec.Struct, frozen=True):
    """The reader follows."""


class EntriesSeen(msgspec.Struct, frozen=True):
    """The times at which the application had consecutive entries of a ledger."""

    ledger_id: int
    first_entry_id: int
    seen_s: list[float]
    is_last: bool


def follow(uri: str, ledger_ids: Sequence[int]) -> None:
    """Follow the ledgers to their end, and report."""
    with connect(uri) as client:
        is_one = len(ledger_ids) == 1
        entries = _of_one(client, ledger_ids[0]) if is_one else _of_many(client, ledger_ids)
        seen_s = see(entries, len(ledger_ids))
    for ledger_id in ledger_ids:
        its_seen_s = seen_s.get(ledger_id, array("d"))
        for first in range(0, max(1, len(its_seen_s)), CHUNK_COUNT):
            end = first + CHUNK_COUNT
            is_last = end >= len(its_seen_s) and ledger_id == ledger_ids[-1]
            report(EntriesSeen(ledger_id, first, list(its_seen_s[first:end]), is_last))


def see(entries: Iterator[Entry], ledger_count: int) -> "dict[int, array[float]]":
    """Return when each entry came, by ledger and id; report when each ledger has one.

    Raises:
        NoSuchEntryError: an entry was skipped.
    """
    seen_s: dict[int, array[float]] = {}
    for entry in entries:
        its_seen_s = seen_s.setdefault(entry.ledger_id, array("d"))
        its_seen_s.append(monotonic_s())
        if entry.entry_id != len(its_seen_s) - 1:
            raise NoSuchEntryError(entry.ledger_id, len(its_seen_s) - 1)
        if entry.entry_id == 0 and len(seen_s) == ledger_count:
            report(TailStarted())
    return seen_s


def _of_one(client: Client, ledger_id: int) -> Iterator[Entry]:
    yield from client.open_ledger(ledger_id).tail(timeout=SILENCE_TIMEOUT_S)


def _of_many(client: Client, ledger_ids: Sequence[int]) -> Iterator[Entry]:
    group = client.tail_group()
    for ledger_id in ledger_ids:
        group.add(client.open_ledger(ledger_id))
    while (item := group.next_item(timeout=SILENCE_TIMEOUT_S)) is not None:
        if item.error is not None:
            raise item.error
        if item.batch is not None:
            yield from item.batch.entries()


if __name__ == "__main__":
    follow(sys.argv[1], [int(one) for one in sys.argv[2:]])
