"""The effects of a scrub: time for the bytes that it read, questions to the owner, damage."""

from array import array
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from zbk.protocol.procedure import Steps
from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile
from zbk.storage.scrub.scrub_view import DiskState, ScrubView


class Paid(msgspec.Struct, frozen=True):
    """So many bytes were read: continue when the rate allows it."""

    size: int


class Pause(msgspec.Struct, frozen=True):
    """Continue after this time."""

    wait_ms: int


class DiskStateOf(msgspec.Struct, frozen=True):
    """Ask the owner of the index for the state of a page on disk; ``None``: of the header."""

    view: ScrubView
    ledger_id: int
    page_no: int | None

    def answer(self) -> DiskState:
        """Return the state. The owner's thread."""
        return self.view.disk_state(self.ledger_id, self.page_no)


class LocationsOf(msgspec.Struct, frozen=True):
    """Ask the owner of the index where entries of one page are now."""

    view: ScrubView
    ledger_id: int
    entry_ids: Sequence[int]

    def answer(self) -> "array[int] | None":
        """Return the locations; ``None`` if the index no longer knows. The owner's thread."""
        return self.view.locations(self.ledger_id, self.entry_ids)


OwnerQuestion: TypeAlias = DiskStateOf | LocationsOf
"""The effects whose answer is what their ``answer`` returns; others have none."""

ScrubEffect: TypeAlias = Paid | Pause | OwnerQuestion | DamagedFile | DamagedEntries

ScrubSteps: TypeAlias = Steps[ScrubEffect, None]
