"""One writer of a load: it appends to a ledger as fast as possible, or at due times.

The loop does almost nothing per entry. Other threads read its progress: the number of acknowledged
entries comes from the ledger's writer, and the answer of an append counts its latency.

Threads: ``_run`` has its own thread; the writer's actor counts latencies (with ``Api.SYNC``, the
loop does); any thread may read ``acked_count``, ``unanswered_size`` and snapshots of ``latencies``.
If a number of appends is kept outstanding there is no thread: each answer appends the next entry.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, assert_never

from zbk.bench.histogram import Histogram
from zbk.bench.load import Api, WriteLoad, create_ledger
from zbk.bench.pace import Pace
from zbk.client.api import Client
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.system.clock import monotonic_s
from zbk.system.handle import WritingHandle

SAMPLE_EVERY: Final = 64
"""One in so many asynchronous appends is timed: timing each would be the load."""

OPEN_WINDOW: Final = 100_000
"""Calls that may be unanswered in an open loop; the client's limit in bytes usually comes first."""

TIMEOUT_S: Final = 300.0


class LedgerLoop(WritingHandle):
    """The writer of one of a load's ledgers, number ``index``."""

    def __init__(self, client: Client, load: WriteLoad, index: int, stop: threading.Event) -> None:
        self.latencies = Histogram()
        self.sent_count = 0  # entries; all of them acknowledged once the loop has ended
        self.ended_s = 0.0
        self.failure: BaseException | None = None
        self._client = client
        self._load = load
        self._stop = stop
        self._left_count = load.entry_count // load.ledger_count
        self._left_count += index < load.entry_count % load.ledger_count
        self._payload = os.urandom(load.entry_size)
        self._unanswered: deque[Future[Any]] = deque()
        self._in_ledger_count = 0
        self._lock = threading.Lock()  # of what follows, where answers append
        self._outstanding_count = 0
        self._has_ended = threading.Event()
        self._thread: threading.Thread | None = None
        writer = create_ledger(client, load)
        writer.append(b"warm-up")  # connections are made, files are open
        self._place = (writer, -writer.last_add_acknowledged)

    # ------------------------------------------------------------------ the thread that measures

    def start(self, pace: Pace) -> None:
        """Start to write."""
        if self._load.outstanding:
            self._outstanding_count = self._load.outstanding
            for _ in range(self._load.outstanding):
                self._append_next(pace)
            return
        self._thread = threading.Thread(target=self._run, args=(pace,), name="zbk-bench-loop")
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the loop; each of its own waits ends after ``TIMEOUT_S``."""
        if self._thread is not None:
            self._thread.join()
        elif self._outstanding_count and not self._has_ended.wait(TIMEOUT_S):
            self.failure = RequestTimeoutError(f"ledger {self.ledger_id}", TIMEOUT_S)

    def end(self) -> None:
        """Stop after the current append.

        Raises:
            ZbkError: an append failed.
        """
        self._stop.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Close the ledger."""
        self._writer.close()

    @property
    def _what(self) -> str:
        return f"ledger {self.ledger_id}"

    # ------------------------------------------------------------------ any thread

    @property
    def ledger_id(self) -> int:
        """The ledger that the loop writes now."""
        return self._writer.ledger_id

    @property
    def acked_count(self) -> int:
        """The number of acknowledged entries of the load."""
        writer, offset = self._place  # both at once: another thread may replace them
        return writer.last_add_acknowledged + offset

    @property
    def unanswered_size(self) -> int:
        """Bytes that the client holds because some live bookie has not answered them."""
        return self._writer.unanswered_size

    @property
    def _writer(self) -> LedgerWriter:
        return self._place[0]

    # ------------------------------------------------------------------ own thread

    def _run(self, pace: Pace) -> None:
        try:
            self._append_all(pace)
            self._settle()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that measures
            self.failure = error
            self._stop.set()
        finally:
            self.ended_s = monotonic_s()

    def _append_all(self, pace: Pace) -> None:
        match self._load.api:
            case Api.MANY:
                self._append_many(pace)
            case Api.ASYNC:
                self._append_async(pace)
            case Api.SYNC:
                self._append_sync(pace)
            case api:
                assert_never(api)

    def _append_many(self, pace: Pace) -> None:
        payloads = [self._payload] * self._load.batch_count
        window = self._window_max(1)
        while count := self._next_count(len(payloads)):
            self._make_room(window)
            at_s = pace.begin(self.sent_count)
            if at_s is None:
                return
            batch = payloads if count == len(payloads) else payloads[:count]
            future = self._writer.append_many(batch, timeout=TIMEOUT_S)
            future.add_done_callback(self._timer(at_s))
            self._unanswered.append(future)
            self._count(count)

    def _append_async(self, pace: Pace) -> None:
        # as many bytes in flight as in batches
        window = self._window_max(self._load.batch_count)
        unanswered, payload = self._unanswered, self._payload
        run_count = 1 if self._load.rate else SAMPLE_EVERY
        while count := self._next_count(run_count):
            self._make_room(window)
            at_s = pace.begin(self.sent_count)
            if at_s is None:
                return
            append = self._writer.append_async
            future = append(payload)
            future.add_done_callback(self._timer(at_s))
            unanswered.append(future)
            for _ in range(count - 1):
                if len(unanswered) >= window:
                    unanswered.popleft().result(TIMEOUT_S)
                unanswered.append(append(payload))
            self._count(count)

    def _append_next(self, pace: Pace) -> None:
        """Append the next entry if one is left; its answer appends the one after it."""
        with self._lock:
            at_s = pace.begin(self.sent_count) if self._next_count(1) else None
            if at_s is None or self.failure is not None:
                self._one_less()
                return
            self._count(1)
        try:
            future = self._writer.append_async(self._payload, timeout=0.0)
        except ZbkError as error:
            self._fail(error)
        else:
            future.add_done_callback(partial(self._answered, pace, at_s))

    def _answered(self, pace: Pace, at_s: float, future: "Future[Any]") -> None:
        self.latencies.record(monotonic_s() - at_s)
        error = future.exception()
        if error is None:
            self._append_next(pace)
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self.failure = self.failure or error
            self._stop.set()
            self._one_less()

    def _one_less(self) -> None:
        self._outstanding_count -= 1
        if not self._outstanding_count:
            self.ended_s = monotonic_s()
            self._has_ended.set()

    def _append_sync(self, pace: Pace) -> None:
        while self._next_count(1):
            at_s = pace.begin(self.sent_count)
            if at_s is None:
                return
            self._writer.append(self._payload, timeout=TIMEOUT_S)
            self.latencies.record(monotonic_s() - at_s)
            self._count(1)

    def _window_max(self, factor: int) -> int:
        return OPEN_WINDOW if self._load.rate else self._load.window * factor

    def _next_count(self, count: int) -> int:
        """Return how many entries, at most ``count``, to append next; 0: the load is done.

        Replaces the ledger by a new one if it has as many entries as it may.
        """
        roll_count = self._load.roll_entry_count
        if not self._load.seconds:
            count = min(count, self._left_count)
        if roll_count and count and self._in_ledger_count == roll_count:
            self._roll()
        return min(count, roll_count - self._in_ledger_count) if roll_count else count

    def _count(self, count: int) -> None:
        self.sent_count += count
        self._left_count -= count
        self._in_ledger_count += count

    def _timer(self, at_s: float) -> Callable[[Future[Any]], None]:
        record = self.latencies.record
        return lambda _future: record(monotonic_s() - at_s)

    def _make_room(self, window: int) -> None:
        """Wait until fewer calls are unanswered, and drop the answered ones."""
        unanswered = self._unanswered
        while unanswered and (len(unanswered) >= window or unanswered[0].done()):
            unanswered.popleft().result(TIMEOUT_S)

    def _settle(self) -> None:
        while self._unanswered:
            self._unanswered.popleft().result(TIMEOUT_S)

    def _roll(self) -> None:
        """Continue in a new ledger, and delete the old one."""
        self._settle()
        former = self._writer
        self._place = (create_ledger(self._client, self._load), self.sent_count + 1)
        self._in_ledger_count = 0
        former.close()
        self._client.delete_ledger(former.ledger_id)
