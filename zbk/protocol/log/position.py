"""The position of an entry in a log: its ledger and its id there.

The ledgers of a log have ascending ids (``zbk.protocol.log.metadata``), so positions are ordered as
the entries are.

Source: "The BookKeeper protocol", section Ledgers to logs.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Self

import msgspec

from zbk.errors import InvalidOptionError
from zbk.protocol.entry.words import ENTRY_ID_MAX, LEDGER_ID_MAX

_FORM = re.compile(r"(\d{1,19}):(\d{1,19})", re.ASCII)


class LogPosition(msgspec.Struct, frozen=True, order=True):
    """A place in a log. Ordered; as text ``LEDGER:ENTRY``.

    >>> LogPosition(7, 9) < LogPosition(7, 10) < LogPosition(8, 0)
    True
    >>> LogPosition.parse("7:9") == LogPosition(7, 9), str(LogPosition(7, 9))
    (True, '7:9')
    """

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"

    @property
    def next(self) -> Self:
        """The next position in the same ledger: where reading continues."""
        return type(self)(self.ledger_id, self.entry_id + 1)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the position in ``text``.

        Raises:
            InvalidOptionError: it is no position.
        """
        match = _FORM.fullmatch(text)
        if match is None or int(match[1]) > LEDGER_ID_MAX or int(match[2]) > ENTRY_ID_MAX:
            raise InvalidOptionError("position", text[:80], "is no LEDGER:ENTRY, such as 7:42")
        return cls(int(match[1]), int(match[2]))


class LogEntry(msgspec.Struct, frozen=True):
    """One entry of a log."""

    position: LogPosition
    payload: bytes


class LogRange(Sequence[LogPosition]):
    """The positions of entries that were appended together.

    >>> positions = LogRange(7, range(3, 5))
    >>> len(positions), str(positions[0]), str(positions[-1])
    (2, '7:3', '7:4')
    """

    __slots__ = ("entry_ids", "ledger_id")

    def __init__(self, ledger_id: int, entry_ids: range) -> None:
        self.ledger_id = ledger_id
        self.entry_ids = entry_ids

    def __len__(self) -> int:
        return len(self.entry_ids)

    def __iter__(self) -> Iterator[LogPosition]:
        return (LogPosition(self.ledger_id, entry_id) for entry_id in self.entry_ids)

    def __getitem__(self, index: int) -> LogPosition:  # type: ignore[override]  # no slices
        return LogPosition(self.ledger_id, self.entry_ids[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogRange):
            return NotImplemented
        return (self.ledger_id, self.entry_ids) == (other.ledger_id, other.entry_ids)

    def __hash__(self) -> int:
        return hash((self.ledger_id, self.entry_ids))

    def __repr__(self) -> str:
        return f"LogRange({self.ledger_id}, {self.entry_ids})"
