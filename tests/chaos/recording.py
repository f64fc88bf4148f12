"""The calls of one client process as JSON lines, each written before or after its call.

A line goes to the kernel before the call begins, and another one before anybody acts on its answer:
whoever kills the process leaves calls without an end, whose outcome nobody knows. One line tells of
a whole batch. Times are the host's monotonic clock, which all processes share, so lines of many
processes can be put in order; ``merge`` does it and makes the history that the checker reads.
"""

import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tests.support.history import Event, History, Kind
from zbk.errors import ZbkError
from zbk.protocol.ledger.metadata import LedgerMetadata

NS_PER_MS = 1_000_000


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The begin or the end of one call, or a fault."""

    at_ns: int
    process: str
    serial: int  # of the call in its process; the end repeats it
    kind: Kind
    call: str
    ledger_id: int | None = None
    first: int | None = None  # entry id of the first value
    values: tuple[str, ...] = ()  # hashes, one an entry
    count: int = 1  # entries of a call that has no values
    result: int | None = None
    error: str | None = None
    log: str | None = None
    note: str = ""


class Recorder:
    """Writes the lines of one process. Any thread."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._serials = itertools.count()
        self._lock = threading.Lock()

    def begin(
        self,
        call: str,
        *,
        handle: str = "",
        ledger_id: int | None = None,
        first: int | None = None,
        values: Iterable[str] = (),
        count: int = 1,
        log: str | None = None,
    ) -> Line:
        """Note that a call begins. ``handle`` tells apart what one process holds several of."""
        return self._write(
            Line(
                at_ns=time.monotonic_ns(),
                process=f"{self._process}{handle}",
                serial=next(self._serials),
                kind="invoke",
                call=call,
                ledger_id=ledger_id,
                first=first,
                values=tuple(values),
                count=count,
                log=log,
            )
        )

    def ok(
        self,
        begun: Line,
        *,
        ledger_id: int | None = None,
        first: int | None = None,
        values: Iterable[str] = (),
        result: int | None = None,
    ) -> Line:
        """Note that it happened."""
        return self._write(
            msgspec.structs.replace(
                begun,
                at_ns=time.monotonic_ns(),
                kind="ok",
                ledger_id=begun.ledger_id if ledger_id is None else ledger_id,
                first=begun.first if first is None else first,
                values=tuple(values) or begun.values,
                result=result,
            )
        )

    def error(self, begun: Line, error: BaseException, *, done_count: int = 0) -> Line:
        """Note that it did not happen, or that nobody knows: the error says which.

        With ``done_count`` the error is about the entry after so many of the call's.
        """
        is_sure = isinstance(error, ZbkError) and error.outcome == "failed"
        rest = msgspec.structs.replace(begun, values=begun.values[done_count:])
        if begun.first is not None:
            rest = msgspec.structs.replace(rest, first=begun.first + done_count, count=1)
        return self._write(
            msgspec.structs.replace(
                rest,
                at_ns=time.monotonic_ns(),
                kind="fail" if is_sure else "info",
                error=type(error).__name__,
                note=str(error)[:200],
            )
        )

    def fault(self, node: str, fault: str, note: str = "") -> Line:
        """Note a fault."""
        return self._write(
            Line(
                at_ns=time.monotonic_ns(),
                process=node,
                serial=next(self._serials),
                kind="info",
                call=fault,
                note=note,
            )
        )

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, line: Line) -> Line:
        with self._lock:
            os.write(self._file, msgspec.json.encode(line) + b"\n")
        return line


class MetadataLine(msgspec.Struct, frozen=True):
    """One version of a ledger's metadata, and when it came."""

    at_ns: int
    version: int
    metadata: LedgerMetadata


class LogLine(msgspec.Struct, frozen=True):
    """One version of a log's list."""

    at_ns: int
    log: str
    version: int
    ledger_ids: tuple[int, ...]


def read_lines(path: Path) -> list[Line]:
    """Return what a process wrote; a last line that was cut off is none."""
    decode = msgspec.json.Decoder(Line).decode
    whole = path.read_bytes().rpartition(b"\n")[0]
    return [decode(line) for line in whole.split(b"\n") if line]


def merge(
    files: Iterable[Path], metadata: Iterable[MetadataLine] = (), logs: Iterable[LogLine] = ()
) -> History:
    """Put the lines of all processes, and the metadata's versions, into one history, by time."""
    calls = [(line.at_ns, path.name, line) for path in files for line in read_lines(path)]
    everything: list[tuple[int, str, Line | MetadataLine | LogLine]] = [
        *calls,
        *((one.at_ns, "", one) for one in metadata),
        *((one.at_ns, "", one) for one in logs),
    ]
    everything.sort(key=lambda item: item[0])  # stable: lines of one process keep their order
    history = History()
    begun: dict[tuple[str, int], list[Event]] = {}
    for at_ns, name, line in everything:
        at_ms = at_ns / NS_PER_MS
        match line:
            case MetadataLine():
                history.metadata_changed(at_ms, line.version, line.metadata)
            case LogLine():
                history.log_changed(at_ms, line.log, line.version, line.ledger_ids)
            case Line(kind="invoke"):
                begun[name, line.serial] = [
                    history.invoke(
                        at_ms,
                        line.process,
                        line.call,
                        ledger_id=line.ledger_id,
                        entry_id=entry_id,
                        value_hash=value,
                        log=line.log,
                    )
                    for entry_id, value in _entries(line)
                ]
            case Line() if (name, line.serial) not in begun:
                history.nemesis(at_ms, line.process, line.call, line.note)
            case Line():
                _end(history, at_ms, begun[name, line.serial], line)
    return history


def _end(history: History, at_ms: float, begun: list[Event], line: Line) -> None:
    first = begun[0].entry_id
    done_count = 0 if first is None or line.first is None else line.first - first
    # a read may bring less than it asked for: an end may be about some of the entries only
    for event, (entry_id, value) in zip(begun[done_count:], _entries(line), strict=False):
        history.end(
            event,
            at_ms,
            line.kind,
            ledger_id=line.ledger_id,
            entry_id=entry_id,
            value_hash=value,
            result=line.result,
            error=line.error,
        )


def _entries(line: Line) -> Iterator[tuple[int | None, str | None]]:
    """Yield entry id and hash of each entry of a line; one pair of nothing for other calls."""
    for number in range(len(line.values) or line.count):
        yield (
            None if line.first is None else line.first + number,
            line.values[number] if line.values else None,
        )
