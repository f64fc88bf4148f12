"""The disk monitor actor: measures free space, makes the bookie read-only and writable again.

mailbox     MeasureDue, from the ticker; NoSpaceMet, from the thread of a write that found no space;
            OptionsChanged
answers     none
owns        the DiskSpace, which decides; the gate's flag; the time when the reserves are made
on failure  the bookie stops

A ledger directory that runs low gets no new ledgers while another one has room. A full directory
makes the bookie read-only, because the ledgers that live there cannot continue.

Source: BookKeeper's ``LedgerDirsMonitor``.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias, assert_never

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.messages import OptionsChanged
from zbk.actors.space_gate import SpaceGate
from zbk.config import BookieConfig
from zbk.config.units import parse_free
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
from zbk.system.event_log import EventLog
from zbk.system.files import FileSystem

LOG = EventLog("zbk.bookie")


class MeasureDue(msgspec.Struct, frozen=True):
    """Measure free space."""


DiskMessage: TypeAlias = MeasureDue | NoSpaceMet | OptionsChanged


def limits_of(config: BookieConfig) -> DiskLimits:
    """Return the limits in a bookie's options."""
    return DiskLimits(
        warn=parse_free(config.disk_warn_free),
        readonly=parse_free(config.disk_readonly_free),
        margin_size=config.journal_segment_size + config.disk_reserve_size,
    )


class DiskMonitorActor(BookieActor):
    """Carries out what ``DiskSpace`` decides; calls ``on_mode`` after each change of the mode."""

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
        self.spaces: Sequence[DirectorySpace] = ()  # as last measured

    def handle(self, message: DiskMessage) -> None:
        """Measure, record that a write found no space, or change the limits."""
        if isinstance(message, OptionsChanged):
            self._space.change(limits_of(message.config))
            return
        event = message if isinstance(message, NoSpaceMet) else self._measure()
        self._handle(event)
        self._storage.homes.avoid(self._space.low_paths)

    def _measure(self) -> Measured:
        try:
            self.spaces = [
                DirectorySpace(
                    path=reserve.directory,
                    free_size=self._files.free_size(reserve.directory),
                    total_size=self._files.total_size(reserve.directory),
                    owed_size=reserve.owed_size,
                )
                for reserve in self._storage.reserves
            ]
            return Measured(self.spaces)
        except OSError as error:
            raise StorageFailedError(str(error.filename), "statvfs", str(error)) from error

    def _handle(self, event: Event) -> None:
        for effect in self._space.handle(event, self._now_ms()):
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case EnterReadOnly():
                LOG.warning(
                    "disk.readonly",
                    "READ-ONLY: %(reason)s; the bookie takes no new entries",
                    reason=effect.reason,
                )
                self._set_readonly(is_readonly=True)
                with suppress(NoSpaceError):  # some file systems need space to remove a file
                    for journal in self._storage.journals:
                        journal.give_up_spares()
            case LeaveReadOnly():
                LOG.info(
                    "disk.writable", "the bookie is writable again: there is space for new entries"
                )
                self._set_readonly(is_readonly=False)
            case MakeReserves():
                self._handle(ReservesMade(self._make_reserves()))
            case WarnOfLowSpace():
                LOG.warning(
                    "disk.low_space",
                    "only %(free_size)d bytes are free in %(directory)s: the bookie will soon be "
                    "read-only",
                    free_size=effect.free_size,
                    directory=effect.path,
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
