"""Loading a stream of bytes into a ledger, as fast as the writer takes it.

Words: a *payload* is the content of one entry; a *batch* is a list of payloads for one
``append_many``. Memory is bounded by ``WINDOW_COUNT_MAX`` batches.

The calling thread reads and appends; the writer's thread records the acknowledgement of a batch.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Final, Protocol

import msgspec

from zbk.config import ENTRY_SIZE_MAX_LIMIT
from zbk.errors import EntryTooLargeError, RequestTimeoutError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.system.clock import monotonic_s

BATCH_COUNT_MAX: Final = 2000
BATCH_SIZE_MAX: Final = 512 * 1024
"""Bytes of payload that fill a batch; a larger payload is a batch of its own."""

READ_SIZE: Final = 256 * 1024
"""Bytes of one read from a source. Bytes in a pipe are read at once: no byte waits for a batch."""

WINDOW_COUNT_MAX: Final = 8
"""Batches in flight. Enough to keep bookies busy; more would wait in the writer's queue."""

ACKNOWLEDGE_TIMEOUT_S: Final = 120.0
"""Time for the next acknowledgement while the window is full."""


class Source(Protocol):
    """A binary stream: a file, standard input."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes as soon as some are there; none at the end."""


class Appender(Protocol):
    """The part of ``LedgerWriter`` that loading needs."""

    def append_many(
        self, payloads: Iterable[bytes], *, timeout: float | None = None
    ) -> "Future[range]":
        """Append a batch; block while too many bytes are pending."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a load."""

    entry_count: int
    payload_size: int  # bytes
    first_entry_id: int  # -1: nothing was appended
    last_entry_id: int
    seconds: float  # from the first append to the last acknowledgement
    latencies_s: list[float]  # of batches, from append to answer, in order of the answers

    @property
    def entries_per_s(self) -> float:
        """The rate; 0 without entries."""
        return self.entry_count / self.seconds if self.seconds else 0.0

    @property
    def mb_per_s(self) -> float:
        """Payload in megabytes (10^6 bytes) a second."""
        return self.payload_size / self.seconds / 1e6 if self.seconds else 0.0


def lines(source: Source) -> Iterator[list[bytes]]:
    r"""Yield the lines, without their ends, in the batches in which they arrive.

    The last line may lack an end; an empty line is an entry.

    Raises:
        EntryTooLargeError: a line is longer than the limit of an entry.

    >>> import io
    >>> list(lines(io.BytesIO(b"one\n\ntwo\r\nthree")))
    [[b'one', b'', b'two\r'], [b'three']]
    """
    begun: list[bytes] = []  # the parts of a line that has not ended yet
    begun_size = 0
    while data := source.read1(READ_SIZE):
        first, *others = data.split(b"\n")
        begun.append(first)
        begun_size += len(first)
        if begun_size > ENTRY_SIZE_MAX_LIMIT:
            raise EntryTooLargeError(begun_size, ENTRY_SIZE_MAX_LIMIT)
        if others:
            last = others.pop()
            yield from _at_most(BATCH_COUNT_MAX, [b"".join(begun), *others])
            begun, begun_size = [last], len(last)
    if begun_size:
        yield [b"".join(begun)]


def chunks(source: Source, size: int) -> Iterator[list[bytes]]:
    """Yield pieces of ``size`` bytes in the batches in which they arrive; the last may be shorter.

    >>> import io
    >>> list(chunks(io.BytesIO(b"abcdefgh"), 3))
    [[b'abc', b'def'], [b'gh']]
    """
    rest: list[bytes] = []
    rest_size = 0
    while data := source.read1(READ_SIZE):
        rest.append(data)
        rest_size += len(data)
        if rest_size >= size:
            joined = b"".join(rest)
            end = rest_size - rest_size % size
            pieces = [joined[start : start + size] for start in range(0, end, size)]
            yield from _at_most(max(1, min(BATCH_COUNT_MAX, BATCH_SIZE_MAX // size)), pieces)
            rest, rest_size = [joined[end:]], rest_size - end
    if rest_size:
        yield [b"".join(rest)]


def whole(source: Source) -> Iterator[list[bytes]]:
    """Yield the whole input as one payload, which may be empty.

    Raises:
        EntryTooLargeError: it is longer than the limit of an entry.
    """
    parts: list[bytes] = []
    size = 0
    while data := source.read1(READ_SIZE):
        parts.append(data)
        size += len(data)
        if size > ENTRY_SIZE_MAX_LIMIT:
            raise EntryTooLargeError(size, ENTRY_SIZE_MAX_LIMIT)
    yield [b"".join(parts)]


def batches(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield payloads in batches that are full by count or by bytes."""
    batch: list[bytes] = []
    size = 0
    for payload in payloads:
        batch.append(payload)
        size += len(payload)
        if size >= BATCH_SIZE_MAX or len(batch) >= BATCH_COUNT_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def load(
    writer: Appender,
    payload_batches: Iterable[list[bytes]],
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Loaded:
    """Append every batch and wait until all are acknowledged.

    ``on_progress`` is called after each batch with the number of entries appended so far.

    Raises:
        EntryTooLargeError: a payload is over the writer's limit; a note names it.
        ZbkError: the error of the first batch that failed.
    """
    window = _Window()
    count = size = 0
    first: Future[range] | None = None
    last: Future[range] | None = None
    started_s = monotonic_s()
    for batch in payload_batches:
        window.enter()
        try:
            last = writer.append_many(batch)
        except EntryTooLargeError as error:
            number = next(n for n, payload in enumerate(batch) if len(payload) > error.size_max)
            error.add_note(f"entry {count + number + 1} of the input is too large")
            raise
        first = first or last
        last.add_done_callback(window.leave_at(monotonic_s()))
        count += len(batch)
        size += sum(map(len, batch))
        on_progress(count)
    window.wait_empty()
    return Loaded(
        entry_count=count,
        payload_size=size,
        first_entry_id=first.result().start if first else NO_ENTRY,
        last_entry_id=last.result().stop - 1 if last else NO_ENTRY,
        seconds=monotonic_s() - started_s,
        latencies_s=window.latencies_s,
    )


class _Window:
    """The batches in flight: their number, their latencies, and the first failure."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._failure: BaseException | None = None
        self.latencies_s: list[float] = []

    def enter(self) -> None:
        """Count one more batch; wait while the window is full. Raises a batch's error."""
        with self._changed:
            self._wait(lambda: self._count < WINDOW_COUNT_MAX)
            self._count += 1

    def wait_empty(self) -> None:
        """Wait until every batch is acknowledged. Raises the error of a failed batch."""
        with self._changed:
            self._wait(lambda: self._count == 0)

    def leave_at(self, started_s: float) -> "Callable[[Future[range]], None]":
        """Return a callback for the end of a batch begun at this time; it runs in any thread."""

        def leave(future: "Future[range]") -> None:
            error = future.exception()
            with self._changed:
                self._count -= 1
                if error is None:
                    self.latencies_s.append(monotonic_s() - started_s)
                elif self._failure is None:
                    self._failure = error
                self._changed.notify()

        return leave

    def _wait(self, is_so: Callable[[], bool]) -> None:
        if not self._changed.wait_for(
            lambda: self._failure is not None or is_so(), ACKNOWLEDGE_TIMEOUT_S
        ):
            raise RequestTimeoutError("the next acknowledgement", ACKNOWLEDGE_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure


def _at_most(count: int, payloads: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(payloads), count):
        yield payloads[start : start + count]
