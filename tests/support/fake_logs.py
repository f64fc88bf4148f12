"""Logs without a cluster: the part of ``FakeClient`` that knows logs."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Self

from zbk.errors import LogFencedError, LogTruncatedError, NoSuchLogError, ZbkError
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.position import LogPosition, LogRange

LEDGER_ENTRY_COUNT = 3
"""A fake log goes on in a new ledger after so many entries."""


class FakeLogBatch(list[bytes]):
    """What reading a log yields: payloads of one ledger, and their ids."""

    def __init__(self, ledger_id: int, first_entry_id: int, payloads: Iterable[bytes]) -> None:
        super().__init__(payloads)
        self.ledger_id = ledger_id
        self.entry_ids = range(first_entry_id, first_entry_id + len(self))


class FakeLogTail:
    """Ends where the log ends, as if somebody had pressed Ctrl-C."""

    def __init__(self, found: Iterator[FakeLogBatch]) -> None:
        self._found = found

    def batches(self) -> Iterator[FakeLogBatch]:
        return self._found


class FakeLog:
    """The owner's handle. ``failure`` makes every append fail."""

    def __init__(self, logs: "FakeLogs", name: str) -> None:
        self._logs = logs
        self.name = name
        self.is_closed = False

    def append_many(
        self, payloads: Iterable[bytes], *, timeout: float | None = None
    ) -> "Future[LogRange]":
        future: Future[LogRange] = Future()
        if self._logs.log_failure is not None:
            future.set_exception(self._logs.log_failure)
            return future
        ledgers = self._logs.ledgers_of[self.name]
        batch = list(payloads)
        if len(ledgers[max(ledgers)]) >= LEDGER_ENTRY_COUNT:
            ledgers[max(ledgers) + 2] = []
        last = max(ledgers)
        start = len(ledgers[last])
        ledgers[last] += batch
        future.set_result(LogRange(last, range(start, start + len(batch))))
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True


class FakeLogs:
    """Logs by name: payloads by ledger."""

    def __init__(self) -> None:
        self.ledgers_of: dict[str, dict[int, list[bytes]]] = {}
        self.first_index: dict[str, int] = {}
        self.log_options: dict[str, Any] = {}
        self.log_failure: ZbkError | None = None
        self.log_handles: list[FakeLog] = []

    def add_log(self, name: str, *ledgers: list[bytes]) -> None:
        """Make a log of ledgers with these entries, numbered 0, 2, 4."""
        self.ledgers_of[name] = {2 * n: entries for n, entries in enumerate(ledgers)}
        self.first_index[name] = 0

    def open_log(
        self,
        name: str,
        *,
        create: bool = True,
        **options: Any,  # noqa: ANN401 - open_log's
    ) -> FakeLog:
        if name not in self.ledgers_of:
            if not create:
                raise NoSuchLogError(name)
            self.add_log(name, [])
        self.log_options = options
        self.log_handles.append(FakeLog(self, name))
        return self.log_handles[-1]

    def fence_log(self, name: str) -> None:
        self.log_failure = LogFencedError(name)

    def read_log_batches(
        self, name: str, start: LogPosition | None = None, *, password: bytes = b""
    ) -> Iterator[FakeLogBatch]:
        found = self._found(name)
        begin = start or LogPosition(min(found), 0)
        if begin.ledger_id < min(found):
            raise LogTruncatedError(name, str(begin), f"{min(found)}:0")
        for ledger_id in sorted(found):
            if ledger_id >= begin.ledger_id:
                first = begin.entry_id if ledger_id == begin.ledger_id else 0
                yield FakeLogBatch(ledger_id, first, found[ledger_id][first:])

    def tail_log(
        self, name: str, start: LogPosition | None = None, *, password: bytes = b""
    ) -> FakeLogTail:
        return FakeLogTail(self.read_log_batches(name, start, password=password))

    def truncate_log(self, name: str, position: LogPosition) -> int:
        gone = [i for i in sorted(self._found(name))[:-1] if i < position.ledger_id]
        for ledger_id in gone:
            del self.ledgers_of[name][ledger_id]
        self.first_index[name] += len(gone)
        return len(gone)

    def delete_log(self, name: str) -> int:
        return len(self._found(name) and self.ledgers_of.pop(name))

    def list_logs(self) -> list[str]:
        return sorted(self.ledgers_of)

    def get_log_metadata(self, name: str) -> LogMetadata:
        return LogMetadata(
            name=name,
            log_id="1",
            created_ms=1_700_000_000_000,
            ledger_ids=tuple(sorted(self._found(name))),
            first_index=self.first_index[name],
        )

    def _found(self, name: str) -> dict[int, list[bytes]]:
        if name not in self.ledgers_of:
            raise NoSuchLogError(name)
        return self.ledgers_of[name]
