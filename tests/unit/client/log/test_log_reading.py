"""Reading a log, and following it: from ledger to ledger, and what ends that.

A whole bookie in this process.
"""

from typing import cast

import pytest

from tests.support.bookie_here import ONE
from zbk.client.api import Client
from zbk.client.log.driver import LedgerClient
from zbk.client.log.log import Log
from zbk.client.log.reader import LogReading
from zbk.client.read.ledger_reader import LedgerReader
from zbk.client.read.tail import LedgerTail
from zbk.errors import (
    BookieUnavailableError,
    LogTruncatedError,
    NoSuchLedgerError,
    NoSuchLogError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.log.position import LogEntry, LogPosition

NAME = "orders"
NEXT_S = 20.0


class FailingLedgers:
    """The ledgers of a client, of which tails fail when a test says so."""

    def __init__(self, client: Client) -> None:
        self.failures: list[ZbkError] = []
        self._client = client

    def check_usable(self) -> None:
        self._client.check_usable()

    def open_ledger(self, ledger_id: int, password: bytes) -> "FailingReader":
        return FailingReader(self._client.open_ledger(ledger_id, password), self.failures)


class FailingReader:
    """A reader, and its tail."""

    def __init__(self, reader: LedgerReader, failures: list[ZbkError]) -> None:
        self._reader = reader
        self._failures = failures
        self._tail: LedgerTail | None = None

    def tail(self, first: int) -> "FailingReader":
        self._tail = self._reader.tail(first)
        return self

    def next_batch(self, timeout: float | None) -> ReadBatch | None:
        assert self._tail is not None
        if self._failures:
            raise self._failures.pop()
        return self._tail.next_batch(timeout=timeout)

    def close(self) -> None:
        self._reader.close()


def open_log(client: Client) -> Log:
    return client.open_log(NAME, **ONE)


def append(log: Log, *payloads: bytes) -> list[LogPosition]:
    """Append to a ledger of their own."""
    positions = [log.append(payload) for payload in payloads]
    log.roll()
    return positions


def payloads(entries: list[LogEntry]) -> list[bytes]:
    return [entry.payload for entry in entries]


def test_a_log_is_read_from_any_position_to_its_end(client: Client) -> None:
    with open_log(client) as log:
        positions = [*append(log, b"0", b"1", b"2"), *append(log, b"3"), *append(log, b"4", b"5")]

    for index, position in enumerate(positions):
        entries = list(client.read_log(NAME, position))
        assert [entry.position for entry in entries] == positions[index:]
        assert payloads(entries) == [b"%d" % number for number in range(index, 6)]
    assert list(client.read_log(NAME, positions[-1].next)) == []


def test_ledgers_that_come_while_a_log_is_read_are_read_too(client: Client) -> None:
    log = open_log(client)
    append(log, b"0")
    log.append(b"1")
    entries = client.read_log(NAME)
    assert next(entries).payload == b"0"

    log.roll()
    append(log, b"2")
    log.append(b"3")
    log.close()

    assert payloads(list(entries)) == [b"1", b"2", b"3"]


def test_what_the_next_owner_appends_to_a_closed_log_is_read_too(client: Client) -> None:
    with open_log(client) as log:
        log.append(b"0")
    entries = client.read_log(NAME)
    assert next(entries).payload == b"0"

    with open_log(client) as log:
        log.append(b"1")

    assert payloads(list(entries)) == [b"1"]


def test_what_is_read_is_a_prefix_though_the_log_goes_on(client: Client) -> None:
    """The first ledger was open when it was opened: its last entries were not confirmed yet."""
    log = open_log(client)
    log.append(b"0")
    log.append(b"1")
    entries = client.read_log(NAME)
    assert next(entries).payload == b"0"

    append(log, b"2")
    log.append(b"3")
    log.close()

    found = [b"0", *payloads(list(entries))]
    assert found == [b"%d" % number for number in range(len(found))]
    assert b"3" not in found


def test_an_owner_reads_all_that_was_confirmed_to_it(client: Client) -> None:
    with open_log(client) as log:
        append(log, b"0")
        log.append(b"1")

        assert payloads(list(log.read())) == [b"0", b"1"]


def test_a_log_that_is_made_anew_while_it_is_read_is_another_one(client: Client) -> None:
    with open_log(client) as log:
        append(log, b"0")
    entries = client.read_log(NAME)
    assert next(entries).payload == b"0"
    client.delete_log(NAME)
    with open_log(client) as log:
        log.append(b"new")

    with pytest.raises(NoSuchLogError):
        next(entries)


def test_a_reader_and_a_tail_say_that_what_comes_next_was_cut_off(client: Client) -> None:
    log = open_log(client)
    append(log, b"0")
    append(log, b"1")
    (begin,) = append(log, b"2")
    entries, tail = client.read_log(NAME), client.tail_log(NAME, timeout=NEXT_S)
    assert (next(entries).payload, next(tail).payload) == (b"0", b"0")

    assert client.truncate_log(NAME, begin) == 2

    for reading in (entries, tail):
        with pytest.raises(LogTruncatedError, match="ledger number 1"):
            next(reading)
    log.close()
    tail.close()


def test_a_ledger_that_was_deleted_by_hand_is_named(client: Client) -> None:
    with open_log(client) as log:
        append(log, b"0")
        (doomed,) = append(log, b"1")
        entries, tail = client.read_log(NAME), client.tail_log(NAME, timeout=NEXT_S)
        assert (next(entries).payload, next(tail).payload) == (b"0", b"0")

        client.delete_ledger(doomed.ledger_id)

        for reading in (entries, tail):
            with pytest.raises(NoSuchLedgerError, match=str(doomed.ledger_id)):
                next(reading)


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_tail_says_that_its_log_is_gone(client: Client, *, is_made_anew: bool) -> None:
    log = open_log(client)
    append(log, b"0")
    append(log, b"1")
    log.close()
    tail = client.tail_log(NAME, timeout=NEXT_S)
    assert next(tail).payload == b"0"

    client.delete_log(NAME)
    if is_made_anew:
        with open_log(client) as log:
            log.append(b"new")

    with pytest.raises(NoSuchLogError, match=NAME):
        next(tail)


def test_a_tail_goes_on_after_an_error_with_the_entry_that_comes_next(client: Client) -> None:
    log = open_log(client)
    log.append(b"0")
    log.append(b"1")
    ledgers = FailingLedgers(client)
    reading = LogReading(NAME, cast("LedgerClient", ledgers), client._logs, b"")
    seen: list[int] = []
    with reading.tail(timeout=NEXT_S) as tail:
        batch = tail.next_batch()
        assert batch is not None
        seen += batch.entry_ids
        ledgers.failures.append(BookieUnavailableError("(all)", "not there"))

        with pytest.raises(BookieUnavailableError):
            tail.next_batch()

        append(log, b"2")
        while len(seen) < 3:
            batch = tail.next_batch()
            assert batch is not None
            seen += batch.entry_ids
    assert seen == [0, 1, 2]
    log.close()


def test_a_tail_that_waited_for_nothing_goes_on(client: Client) -> None:
    log = open_log(client)
    tail = client.tail_log(NAME, timeout=0.2)
    with pytest.raises(RequestTimeoutError, match=NAME):
        next(tail)

    append(log, b"0", b"1")
    append(log, b"2")

    assert payloads([next(tail) for _ in range(3)]) == [b"0", b"1", b"2"]
    tail.close()
    log.close()
