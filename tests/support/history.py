"""What clients called and what came of it, and every version of every ledger's metadata.

A *call* is an ``invoke`` and at most one end: ``ok`` (it happened), ``fail`` (it did not), ``info``
(nobody knows: it may still happen). Being fenced and every time-out are ``info`` for an add.
``process`` names one handle: a writer, a reader; its acknowledgements have an order. A *nemesis*
event tells of a fault: its call is the fault, its process the node, its kind ``info``.

    call            ledger_id   entry_id    value_hash   result
    create          ok          -           -            -
    open            both        -           -            ok: the LAC
    add             both        ok          invoke       -
    sync            both        -           -            ok: the last durable entry
    close           both        -           -            ok: the last entry
    recover         both        -           -            ok: the last entry
    read            both        both        ok           -         one entry, up to the LAC
    read_unconfirmed, as read
    read_lac        both        -           -            ok: the LAC
    delete          both        -           -            -
    log_append      ok          ok          invoke       -         ``log`` names the log
    log_read        ok          ok          ok           -         one entry
    log_own         ok          -           -            -         the ledger that is now written

Events and metadata versions share one count, in the order in which they happened or, on real
processes, were seen. As text they are JSON, one a line.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from zbk.protocol.ledger.metadata import LedgerMetadata

Kind: TypeAlias = Literal["invoke", "ok", "fail", "info"]

POWER_LOSS = "power_loss"
"""A fault after which what was not synced may be gone. So is a failed fsync."""
FAILED_FSYNC = "failed_fsync"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the history."""

    index: int
    at_ms: float
    process: str
    kind: Kind
    call: str
    invoked_at: int | None = None  # the end of a call: the index of its invoke
    ledger_id: int | None = None
    entry_id: int | None = None
    value_hash: str | None = None
    result: int | None = None
    error: str | None = None  # the name of the error's class
    log: str | None = None
    note: str = ""  # for people

    def __str__(self) -> str:
        parts = [f"{self.at_ms:10.3f} ms  {self.process:<12} {self.call} {self.kind}"]
        if self.log is not None:
            parts.append(f"log {self.log}")
        if self.ledger_id is not None:
            where = "" if self.entry_id is None else f"/{self.entry_id}"
            parts.append(f"L{self.ledger_id}{where}")
        if self.value_hash is not None:
            parts.append(f"={self.value_hash}")
        if self.result is not None:
            parts.append(f"-> {self.result}")
        if self.error is not None:
            parts.append(self.error)
        return " ".join([*parts, self.note]).rstrip()


class MetadataVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a ledger's metadata."""

    index: int
    at_ms: float
    version: int
    metadata: LedgerMetadata

    @property
    def ledger_id(self) -> int:
        return self.metadata.ledger_id

    def __str__(self) -> str:
        metadata = self.metadata
        fragments = " ".join(
            f"{f.first_entry_id}:{','.join(f.bookies)}" for f in metadata.fragments
        )
        end = "" if metadata.last_entry_id is None else f" last {metadata.last_entry_id}"
        return (
            f"{self.at_ms:10.3f} ms  {'metadata':<12} L{self.ledger_id} v{self.version} "
            f"{metadata.state}{end} [{fragments}]"
        )


class LogVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a log's list of ledgers."""

    index: int
    at_ms: float
    log: str
    version: int
    ledger_ids: tuple[int, ...]

    def __str__(self) -> str:
        ids = ",".join(map(str, self.ledger_ids))
        return f"{self.at_ms:10.3f} ms  {'metadata':<12} log {self.log} v{self.version} [{ids}]"


class MetadataHistory(msgspec.Struct):
    """Every version, in order.

    ``is_complete``: none was missed, and each stands in the history where it was made; else, where
    it was seen.
    """

    ledgers: list[MetadataVersion] = []
    logs: list[LogVersion] = []
    is_complete: bool = False


class History:
    """The events of a run, and the versions of its metadata."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.metadata = MetadataHistory()
        self._indexes = count()

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def next_index(self) -> int:
        """Return the index that the next event will not have: it is the caller's."""
        return next(self._indexes)

    def record(self, event: Event) -> Event:
        """Keep an event; its index comes from ``next_index``."""
        self.events.append(event)
        return event

    def invoke(
        self,
        at_ms: float,
        process: str,
        call: str,
        *,
        ledger_id: int | None = None,
        entry_id: int | None = None,
        value_hash: str | None = None,
        log: str | None = None,
    ) -> Event:
        """Note that a call begins; return what ``end`` wants."""
        return self.record(
            Event(
                index=self.next_index(),
                at_ms=at_ms,
                process=process,
                kind="invoke",
                call=call,
                ledger_id=ledger_id,
                entry_id=entry_id,
                value_hash=value_hash,
                log=log,
            )
        )

    def end(
        self,
        begun: Event,
        at_ms: float,
        kind: Kind,
        *,
        ledger_id: int | None = None,
        entry_id: int | None = None,
        value_hash: str | None = None,
        result: int | None = None,
        error: BaseException | str | None = None,
    ) -> Event:
        """Note the end of a call; what its begin said holds unless it is given again."""
        name = type(error).__name__ if isinstance(error, BaseException) else error
        return self.record(
            Event(
                index=self.next_index(),
                at_ms=at_ms,
                process=begun.process,
                kind=kind,
                call=begun.call,
                invoked_at=begun.index,
                ledger_id=begun.ledger_id if ledger_id is None else ledger_id,
                entry_id=begun.entry_id if entry_id is None else entry_id,
                value_hash=begun.value_hash if value_hash is None else value_hash,
                result=result,
                error=name,
                log=begun.log,
                note=str(error)[:100] if isinstance(error, BaseException) else "",
            )
        )

    def nemesis(self, at_ms: float, node: str, fault: str, note: str = "") -> Event:
        """Note a fault."""
        return self.record(
            Event(
                index=self.next_index(),
                at_ms=at_ms,
                process=node,
                kind="info",
                call=fault,
                note=note,
            )
        )

    def metadata_changed(self, at_ms: float, version: int, metadata: LedgerMetadata) -> None:
        """Note a new version of a ledger's metadata."""
        index = self.next_index()
        one = MetadataVersion(index=index, at_ms=at_ms, version=version, metadata=metadata)
        self.metadata.ledgers.append(one)

    def log_changed(self, at_ms: float, log: str, version: int, ledger_ids: Iterable[int]) -> None:
        """Note a new version of a log's list."""
        self.metadata.logs.append(
            LogVersion(
                index=self.next_index(),
                at_ms=at_ms,
                log=log,
                version=version,
                ledger_ids=tuple(ledger_ids),
            )
        )

    # ------------------------------------------------------------------ as text

    def write(self, path: Path) -> None:
        """Write ``path`` (events), and beside it what the metadata was."""
        lines = [msgspec.json.encode(event) for event in self.events]
        path.write_bytes(b"\n".join([*lines, b""]))
        path.with_suffix(".metadata.json").write_bytes(msgspec.json.encode(self.metadata))

    @classmethod
    def read(cls, path: Path) -> "History":
        """Return what ``write`` wrote."""
        history = cls()
        decode = msgspec.json.Decoder(Event).decode
        history.events = [decode(line) for line in path.read_bytes().splitlines()]
        text = path.with_suffix(".metadata.json").read_bytes()
        history.metadata = msgspec.json.decode(text, type=MetadataHistory)
        last = max((event.index for event in history.events), default=-1)
        history._indexes = count(last + 1)
        return history


def hash_of(value: bytes) -> str:
    """Return a short name of a value."""
    return blake2b(value, digest_size=6).hexdigest()
