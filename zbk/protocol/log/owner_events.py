"""What the owner of a log is told, and what it wants done (``zbk.protocol.log.owner``)."""

from typing import TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.log.metadata import LogMetadata

# ------------------------------------------------------------------ events


class TakeOverAsked(msgspec.Struct, frozen=True):
    """Become the owner. Once, first of all."""


class RollAsked(msgspec.Struct, frozen=True):
    """Go on in a new ledger."""


class CloseAsked(msgspec.Struct, frozen=True):
    """Write no more, and close what is open."""


class ListRead(msgspec.Struct, frozen=True):
    """The list as it was at some time since it was asked for."""

    log: LogMetadata
    version: int


class ListUnread(msgspec.Struct, frozen=True):
    """The list could not be read, or there is none."""

    error: ZbkError


class ListWritten(msgspec.Struct, frozen=True):
    """The list was written, and has this version."""

    version: int


class ListConflicted(msgspec.Struct, frozen=True):
    """The list had another version: this attempt wrote nothing."""


class ListUnwritten(msgspec.Struct, frozen=True):
    """The list may or may not have been written."""

    error: ZbkError


class LedgerRecovered(msgspec.Struct, frozen=True):
    """The ledger is closed, and nobody can add to it."""

    ledger_id: int


class LedgerUnrecovered(msgspec.Struct, frozen=True):
    """The ledger could not be recovered."""

    ledger_id: int
    error: ZbkError


class LedgerCreated(msgspec.Struct, frozen=True):
    """There is a new, empty ledger that only we can write."""

    ledger_id: int


class LedgerUncreated(msgspec.Struct, frozen=True):
    """No ledger was made, or nobody knows its id."""

    error: ZbkError


class LedgerSwitched(msgspec.Struct, frozen=True):
    """Appends go to the new ledger; all that went to the old one are answered, and well."""


class LedgerUnswitched(msgspec.Struct, frozen=True):
    """Appends to the old ledger cannot all be answered well now; it still takes the appends."""

    error: ZbkError


class LedgerLost(msgspec.Struct, frozen=True):
    """An append to a ledger failed: nothing more can be added to it."""

    ledger_id: int
    error: ZbkError


class LedgerClosed(msgspec.Struct, frozen=True):
    """The ledger is closed at our last entry."""

    ledger_id: int


class LedgerUnclosed(msgspec.Struct, frozen=True):
    """The ledger could not be closed."""

    ledger_id: int
    error: ZbkError


ListEvent: TypeAlias = ListRead | ListUnread | ListWritten | ListConflicted | ListUnwritten
LedgerEvent: TypeAlias = (
    LedgerRecovered
    | LedgerUnrecovered
    | LedgerCreated
    | LedgerUncreated
    | LedgerSwitched
    | LedgerUnswitched
    | LedgerClosed
    | LedgerUnclosed
)
Event: TypeAlias = TakeOverAsked | RollAsked | CloseAsked | ListEvent | LedgerEvent | LedgerLost


# ------------------------------------------------------------------ effects


class ReadList(msgspec.Struct, frozen=True):
    """Read the list: ``ListRead`` or ``ListUnread``."""


class WriteList(msgspec.Struct, frozen=True):
    """Write the list on a version: ``ListWritten``, ``ListConflicted`` or ``ListUnwritten``."""

    log: LogMetadata
    version: int


class Pause(msgspec.Struct, frozen=True):
    """Wait before the next effect, the longer the higher ``attempt`` is, and by chance."""

    attempt: int


class RecoverLedger(msgspec.Struct, frozen=True):
    """Fence, recover and close it: ``LedgerRecovered`` or ``LedgerUnrecovered``."""

    ledger_id: int


class CreateLedger(msgspec.Struct, frozen=True):
    """Make a ledger of our own: ``LedgerCreated`` or ``LedgerUncreated``."""


class DeleteLedger(msgspec.Struct, frozen=True):
    """Delete an orphan if possible; no answer."""

    ledger_id: int


class SwitchLedger(msgspec.Struct, frozen=True):
    """Wait for all appends to ``old``, then send further ones to ``new``.

    ``LedgerSwitched``; ``LedgerUnswitched``; or ``LedgerLost`` of ``old``, if one of them failed.
    Appends that come meanwhile wait. On a VD ledger "answered" means synced.
    """

    old_id: int | None
    new_id: int


class CloseLedger(msgspec.Struct, frozen=True):
    """Close a ledger of our own: ``LedgerClosed`` or ``LedgerUnclosed``."""

    ledger_id: int


class RollFailed(msgspec.Struct, frozen=True):
    """The current ledger stays; it may be tried again."""

    error: ZbkError


class CloseFailed(msgspec.Struct, frozen=True):
    """The current ledger stays open, and takes no appends; a close may be asked for again."""

    error: ZbkError


class Stop(msgspec.Struct, frozen=True):
    """Serve no more appends, ever. ``None``: it was closed as it was asked for."""

    error: ZbkError | None


Effect: TypeAlias = (
    ReadList
    | WriteList
    | Pause
    | RecoverLedger
    | CreateLedger
    | DeleteLedger
    | SwitchLedger
    | CloseLedger
    | RollFailed
    | CloseFailed
    | Stop
)
