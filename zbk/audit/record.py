"""One line of the audit log.

    time         when, UTC
    process      which process wrote the line: bookie b-1234, zbk principal add
    action       authenticate, create, fence, recovery, delete, grant, principal, key, admin, audit
    outcome      done, refused, failed
    principal    who, by the key of the connection; absent without a key
    key_id       the first ``KEY_ID_SIZE`` characters of the public key
    user         who, for a command: the user of the operating system
    address      from where
    ledger_id    the ledger, if it is about one
    what         what exactly, or why not
    count        lines that were suppressed; only with the action audit

Fields that do not apply are absent. A record has no payload, password or private key: it is made of
ids, names and the texts of errors, which have none. Pure.
"""

from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import msgspec

TEXT_SIZE_MAX: Final = 256
KEY_ID_SIZE: Final = 10

Action: TypeAlias = Literal[
    "authenticate",
    "create",
    "fence",
    "recovery",
    "delete",
    "grant",
    "principal",
    "key",
    "admin",
    "audit",
]
Outcome: TypeAlias = Literal["done", "refused", "failed"]


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line, without its time and process."""

    action: Action
    outcome: Outcome
    principal: str = ""
    key_id: str = ""
    user: str = ""
    address: str = ""
    ledger_id: int | None = None
    what: str = ""
    count: int = 0


class _Line(AuditRecord, frozen=True, kw_only=True, omit_defaults=True):
    time: str
    process: str


def key_id(public_key: str) -> str:
    """Return the short name of a public key, which `zbk principal ls` shows the beginning of.

    >>> key_id("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7")
    'rq:rM>}U?@'
    """
    return public_key[:KEY_ID_SIZE]


def line_of(record: AuditRecord, process: str, time_ms: int) -> bytes:
    """Return the line of a record: JSON, and a line feed. ``time_ms`` counts from 1970."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    texts = {
        name: _printable(getattr(record, name))
        for name in ("principal", "key_id", "user", "address", "what")
    }
    line = _Line(
        time=moment.replace("+00:00", "Z"),
        process=_printable(process),
        action=record.action,
        outcome=record.outcome,
        ledger_id=record.ledger_id,
        count=record.count,
        **texts,
    )
    return msgspec.json.encode(line) + b"\n"


def _printable(text: str) -> str:
    """Return a text that is no longer than it may be, and that UTF-8 can hold."""
    return text[:TEXT_SIZE_MAX].encode("utf-8", "replace").decode()
