"""Effects of the owner of a log (``zbk.protocol.log.owner``), and their answers.

Any answer may be an error. An effect without a stated answer is answered with ``None``.
"""

from typing import TypeAlias

import msgspec

from zbk.protocol.log.metadata import LogMetadata


class ReadList(msgspec.Struct, frozen=True):
    """Read the list. Answer: the log and its version, as of the request or later."""


class WriteList(msgspec.Struct, frozen=True):
    """Write the list on a version. Answer: its new version.

    ``BadVersionError``: the list had another version, and this attempt wrote nothing. After any
    other error the list may be written or not.
    """

    log: LogMetadata
    version: int


class Pause(msgspec.Struct, frozen=True):
    """Wait a random time that grows with ``attempt``."""

    attempt: int


class RecoverLedger(msgspec.Struct, frozen=True):
    """Fence, recover and close a ledger."""

    ledger_id: int


class CreateLedger(msgspec.Struct, frozen=True):
    """Create an empty ledger. Answer: its id."""


class DeleteLedger(msgspec.Struct, frozen=True):
    """Delete an orphan if possible. No errors: an empty ledger does no harm."""

    ledger_id: int


class SwitchLedger(msgspec.Struct, frozen=True):
    """Wait for all appends to ``old``, then send further ones to ``new``.

    ``CannotAdvanceError``, ``RequestTimeoutError``: the appends cannot be synced now; ``old`` still
    accepts appends. Any other error: an append to it failed. New appends wait meanwhile. In a VD
    ledger an append counts as answered when it is synced.
    """

    old_id: int | None
    new_id: int


class CloseLedger(msgspec.Struct, frozen=True):
    """Close a ledger that this owner created, at its last entry."""

    ledger_id: int


Effect: TypeAlias = (
    ReadList
    | WriteList
    | Pause
    | RecoverLedger
    | CreateLedger
    | DeleteLedger
    | SwitchLedger
    | CloseLedger
)
