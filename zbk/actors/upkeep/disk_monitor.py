"""The disk monitor actor: looks at free space, and makes the bookie read-only and writable again.

mailbox     MeasureDue, from the ticker; NoSpaceMet, from whatever thread found no space
answers     nobody
owns        the DiskSpace, which decides; the gate's flag; the time when the reserves are made
on failure  the bookie stops

A ledger directory that runs low gets no new ledgers while another one has room. One that is full
makes the bookie read-only all the same: the ledgers that live there could not go on.

Source: BookKeeper's ``LedgerDirsMonitor``.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, assert_never

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.space_gate import SpaceGate
from zbk.errors import NoSpaceError, OutOfDescriptorsError, StorageFailedError
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.disk_space import (
    DirectorySpace,
    DiskLimits,
    DiskSpace,
    Effect,
    EnterReadOnly,
    Event,
    LeaveReadOnly,
    MakeReserves,
    Measured,
    NoSpaceMet,
    ReservesMade,
    WarnOfLowSpace,
)
from zbk.system.clock import monotonic_ms
from zbk.system.files import FileSystem

logger = logging.getLogger("zbk.bookie")


class MeasureDue(msgspec.Struct, frozen=True):
    """Look how much is free."""


DiskMessage: TypeAlias = MeasureDue | NoSpaceMet


class DiskMonitorActor(BookieActor):
    """Carries out what ``DiskSpace`` decides; ``on_mode`` is told each change of the mode."""

    def __init__(
        self,
        storage: BookieStorage,
        files: FileSystem,
        limits: DiskLimits,
        gate: SpaceGate,
        on_mode: Callable[[], None],
        stop_bookie: StopBookie,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(stop_bookie)
        self._storage = storage
        self._files = files
        self._space = DiskSpace(limits)
        self._gate = gate
        self._on_mode = on_mode
        self._now_ms = now_ms

    def handle(self, message: DiskMessage) -> None:
        """Measure, or take in that a write found no space."""
        event = message if isinstance(message, NoSpaceMet) else self._measure()
        self._take_in(event)
        self._storage.homes.avoid(self._space.low_paths)

    def _measure(self) -> Measured:
        try:
            return Measured(
                [
                    DirectorySpace(
                        path=reserve.directory,
                        free_size=self._files.free_size(reserve.directory),
                        total_size=self._files.total_size(reserve.directory),
                        owed_size=reserve.owed_size,
                    )
                    for reserve in self._storage.reserves
                ]
            )
        except OSError as error:
            raise StorageFailedError(str(error.filename), "statvfs", str(error)) from error

    def _take_in(self, event: Event) -> None:
        for effect in self._space.handle(event, self._now_ms()):
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case EnterReadOnly():
                logger.warning("READ-ONLY: %s; no new entries are taken", effect.reason)
                self._set_readonly(is_readonly=True)
                with suppress(NoSpaceError):  # some file systems need space to remove; it stays
                    self._storage.journals.give_up_spares()
            case LeaveReadOnly():
                logger.info("writable again: there is space for new entries")
                self._set_readonly(is_readonly=False)
            case MakeReserves():
                self._take_in(ReservesMade(self._make_reserves()))
            case WarnOfLowSpace():
                logger.warning(
                    "only %d bytes are free in %s: the bookie will be read-only before long",
                    effect.free_size,
                    effect.path,
                )
            case _:
                assert_never(effect)

    def _make_reserves(self) -> bool:
        try:
            return self._storage.make_reserves()
        except OutOfDescriptorsError:
            return False

    def _set_readonly(self, *, is_readonly: bool) -> None:
        self._gate.is_readonly = is_readonly
        self._on_mode()
