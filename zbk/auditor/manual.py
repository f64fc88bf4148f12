"""Repair by hand: the move of a bookie's replicas to others, and its decommissioning.

A move repairs one ledger after the other, with the worker's code, under the lock of each ledger's
task: workers and the collection of superfluous copies take the same lock. A locked ledger is tried
again at the end.

Both are generators of events, which the caller shows. They run in the caller's thread.

Source: the autorecovery page, Manual Bookie Recovery; BookKeeper's ``BookKeeperAdmin``. Decision: a
move does not require that the bookie is stopped. A running bookie is a source, too, and its open
ledgers are left alone, because their writers still use it.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Literal, TypeAlias

import msgspec

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.copier import Copier
from zbk.auditor.ledger_repairer import LedgerRepairer, RepairSetup, RepairWatcher
from zbk.auditor.target_policies import OneTarget, PlacementTarget, TargetPolicy
from zbk.errors import (
    BookieInUseError,
    DamageError,
    InvalidOptionError,
    MetadataUnavailableError,
    NoNodeError,
    NoSuchLedgerError,
    UnsupportedVersionError,
)
from zbk.protocol.entry.digest import is_same_secret, password_digest
from zbk.protocol.ledger.filter import names_bookie
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.copy_order import LostEntries, due_count, ends_of
from zbk.protocol.repair.forced_move import ForcedMove, ForcedMoveResult
from zbk.protocol.repair.repair_effects import RepairAim, RepairLimits, RepairResult

OWNER: Final = "by hand"
BUSY_WAIT_S: Final = 1.0
BUSY_COUNT_MAX: Final = 60
"""The number of further attempts at a locked ledger."""

MoveOutcome: TypeAlias = Literal["moved", "deleted", "open", "unrepairable", "failed", "locked"]


class LedgerFound(msgspec.Struct, frozen=True):
    """A ledger whose metadata name the bookie."""

    ledger_id: int
    state: str
    fragment_count: int  # that name it
    entry_count: int  # due on it, in fragments whose end is known
    unreadable: str = ""  # why the metadata cannot be read: they may name it or not


class LedgerMoved(msgspec.Struct, frozen=True):
    """The result of one ledger."""

    ledger_id: int
    outcome: MoveOutcome
    fragment_count: int  # in which the bookie was replaced
    entry_count: int  # copied
    size: int  # their bytes
    why: str = ""  # it was not moved


class MoveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a move."""

    to: str = ""  # a bookie; empty: the choice of the placement policy
    ledger_id: int | None = None  # this one only
    password: bytes | None = None
    limits: RepairLimits = RepairLimits()


class BookieMove:
    """The move of one bookie's replicas to others."""

    def __init__(
        self,
        connection: ClusterConnection,
        bookie_id: str,
        options: MoveOptions,
        *,
        copier: Copier | None = None,
        watcher: RepairWatcher | None = None,
        is_stopped: threading.Event | None = None,
    ) -> None:
        self._connection = connection
        self._bookie_id = bookie_id
        self._options = options
        self._copier = copier or Copier(connection.requests)
        self._watcher = watcher or RepairWatcher()
        self._is_stopped = is_stopped or threading.Event()
        self._targets: TargetPolicy = PlacementTarget(connection.placer)
        if options.to:
            self._targets = OneTarget(connection.placer, options.to, is_local=False)

    def check(self) -> None:
        """Check the bookies of the move.

        Raises:
            InvalidOptionError: there is no such bookie, or the target takes no new entries.
            BookieInUseError: it may be running: its registration cannot be read.
        """
        is_member = self._connection.registry.read_cookie(self._bookie_id) is not None
        # its cookie may have been deleted too early
        if not is_member and all(found.unreadable for found in self.plan()):
            reason = "has no cookie in this cluster, and no ledger names it; see `zbk bookie ls`"
            raise InvalidOptionError("bookie", self._bookie_id, reason)
        to = self._options.to
        if to and (to == self._bookie_id or not self._connection.placer.is_writable(to)):
            raise InvalidOptionError(
                "to", to, "is no other bookie that takes new entries; see `zbk bookie ls`"
            )
        is_registered(self._connection, self._bookie_id)

    def plan(self) -> Iterator[LedgerFound]:
        """Yield the ledgers that name the bookie, or may, without changing them.

        Raises:
            MetadataUnavailableError: not all ledgers could be read.
            NoSuchLedgerError: the requested ledger does not exist.
            DamageError: the metadata of the requested ledger cannot be read.
        """
        ledgers = self._connection.ledgers
        if self._options.ledger_id is not None:
            metadata, _version = ledgers.read(self._options.ledger_id)
            if names_bookie(metadata, self._bookie_id):
                yield found_in(metadata, self._bookie_id)
            return
        for ledger_id in ledgers.list():
            try:
                metadata, _version = ledgers.read(ledger_id)
            except NoSuchLedgerError:  # deleted since it was listed
                continue
            except (DamageError, UnsupportedVersionError) as error:
                yield LedgerFound(ledger_id, "unreadable", 0, 0, unreadable=str(error))
                continue
            if names_bookie(metadata, self._bookie_id):
                yield found_in(metadata, self._bookie_id)

    def run(self) -> Iterator[LedgerMoved]:
        """Move ledger after ledger; yield the result of each."""
        locked: list[int] = []
        for found in self.plan():
            if self._is_stopped.is_set():
                return
            if found.unreadable:
                why = f"its metadata cannot be read: {found.unreadable}"
                yield LedgerMoved(found.ledger_id, "failed", 0, 0, 0, why)
                continue
            moved = self._move(found.ledger_id)
            if moved is None:
                locked.append(found.ledger_id)
            else:
                yield moved
        for ledger_id in locked:
            yield self._move_patiently(ledger_id)

    # ------------------------------------------------------------------ inside

    def _move_patiently(self, ledger_id: int) -> LedgerMoved:
        for _ in range(BUSY_COUNT_MAX):
            moved = self._move(ledger_id)
            if moved is not None:
                return moved
            if self._is_stopped.wait(BUSY_WAIT_S):
                break
        holder = self._connection.tasks.locked().get(ledger_id, "another process")
        return LedgerMoved(ledger_id, "locked", 0, 0, 0, f"{holder} is working on it")

    def _move(self, ledger_id: int) -> LedgerMoved | None:
        """Move one ledger; return the result, or ``None`` if it is locked."""
        with self._repairer(ledger_id) as repairer:
            return None if repairer is None else _moved(ledger_id, repairer.run())

    def force(
        self, ledger_id: int, confirmed: Sequence[LostEntries] | None = None
    ) -> ForcedMoveResult:
        """Remove the bookie from a ledger although ``confirmed`` entries are lost with it.

        Without ``confirmed`` the metadata do not change, and the result names the losses. A move
        that is stopped refuses.
        """
        if self._is_stopped.is_set():
            return _STOPPED
        with self._repairer(ledger_id) as repairer:
            if repairer is None:
                return ForcedMoveResult(refusal="another process is working on it")
            forced = ForcedMove(repairer.aim, confirmed)
            effect = forced.begin()
            while effect is not None:
                if self._is_stopped.is_set():
                    forced.stop()
                    return _STOPPED
                effect = forced.resume(repairer.carry_out)
            return forced.result

    @contextmanager
    def _repairer(self, ledger_id: int) -> Iterator[LedgerRepairer | None]:
        """Lock a ledger and yield its repairer; ``None`` if another process has locked it."""
        tasks = self._connection.tasks
        if not tasks.lock(ledger_id, OWNER):
            yield None
            return
        try:
            password = self._password_of(ledger_id)
            leaving = frozenset([self._bookie_id])
            aim = RepairAim(
                ledger_id=ledger_id,
                suspects=leaving,
                to_leave=leaving,
                has_password=password is not None,
            )
            setup = RepairSetup(
                connection=self._connection,
                copier=self._copier,
                targets=self._targets,
                limits=self._options.limits,
                password=password,
                watcher=self._watcher,
                holds_lock=lambda: tasks.holds(ledger_id),
                is_stopped=self._is_stopped,
            )
            yield LedgerRepairer(aim, setup)
        finally:
            with suppress(MetadataUnavailableError):  # it goes with the session
                tasks.unlock(ledger_id)

    def _password_of(self, ledger_id: int) -> bytes | None:
        """Return the given password if it is the ledger's: ledgers may have different ones."""
        password = self._options.password
        if password is None:
            return None
        with suppress(NoSuchLedgerError):
            metadata, _version = self._connection.ledgers.read(ledger_id)
            ours = password_digest(password, ledger_id)
            if is_same_secret(ours, metadata.password_digest):
                return password
        return None


class LedgerLoss(msgspec.Struct, frozen=True):
    """What a forced decommissioning gives up of one ledger: entries, or nothing."""

    ledger_id: int
    lost: tuple[LostEntries, ...]


class Decommission:
    """The decommissioning of a stopped bookie: ``run``, perhaps ``give_up``, then ``finish``.

    ``losses`` states what is lost for good, and ``give_up`` removes the bookie from these ledgers.
    """

    def __init__(self, move: BookieMove, connection: ClusterConnection, bookie_id: str) -> None:
        self._move = move
        self._connection = connection
        self._bookie_id = bookie_id

    def run(self) -> Iterator[LedgerMoved]:
        """Move all replicas; yield the result of each ledger.

        Raises:
            BookieInUseError: the bookie is running.
            InvalidOptionError: there is no such bookie.
        """
        self._move.check()
        self._check_stopped()
        yield from self._move.run()

    def losses(self) -> list[LedgerLoss]:
        """Return what the remaining bookies cannot provide of each ledger that is left.

        Raises:
            BookieInUseError: the bookie cannot be removed from one of them, one cannot be read, or
                the move is stopped.
        """
        losses = []
        for found in self._move.plan():
            if found.unreadable:
                reason = f"the metadata of ledger {found.ledger_id} cannot be read"
                raise BookieInUseError(self._bookie_id, f"{reason}: {found.unreadable}")
            losses.append(LedgerLoss(found.ledger_id, self._force(found.ledger_id)))
        return losses

    def give_up(self, losses: Sequence[LedgerLoss]) -> None:
        """Remove the bookie from these ledgers, if no more is lost than stated.

        Raises:
            BookieInUseError: more is lost, a ledger cannot be changed now, or the move is stopped.
        """
        for one in losses:
            self._force(one.ledger_id, one.lost)

    def finish(self) -> None:
        """Delete the bookie's cookie, for good.

        Raises:
            BookieInUseError: it is running, or ledgers still name it: the cookie is kept.
        """
        plan = list(self._move.plan())
        left = [found.ledger_id for found in plan if not found.unreadable]
        unreadable = [found.ledger_id for found in plan if found.unreadable]
        reasons = []
        if left:
            reasons.append(f"{len(left)} ledgers still name it: {_first(left)}")
        if unreadable:
            may = "ledgers may name it, whose metadata cannot be read"
            reasons.append(f"{len(unreadable)} {may}: {_first(unreadable)}")
        if reasons:
            reason = f"{'; '.join(reasons)}; see why above, and try again"
            raise BookieInUseError(self._bookie_id, reason)
        self._check_stopped()
        with suppress(NoNodeError):  # deleted already
            self._connection.registry.delete_cookie(self._bookie_id)

    def _force(
        self, ledger_id: int, confirmed: Sequence[LostEntries] | None = None
    ) -> tuple[LostEntries, ...]:
        result = self._move.force(ledger_id, confirmed)
        if result.refusal:
            reason = f"ledger {ledger_id} cannot go on without it: {result.refusal}"
            raise BookieInUseError(self._bookie_id, reason)
        return result.lost

    def _check_stopped(self) -> None:
        is_watched = self._bookie_id in self._connection.registered()
        if is_watched or is_registered(self._connection, self._bookie_id):
            raise BookieInUseError(
                self._bookie_id,
                "it is running. Stop it first; to have it emptied while it still serves, run "
                f"`zbk bookie recover {self._bookie_id}` before",
            )


_SHOWN_COUNT: Final = 5

_STOPPED: Final = ForcedMoveResult(refusal="it was stopped")


def is_registered(connection: ClusterConnection, bookie_id: str) -> bool:
    """Return whether a bookie is registered now; the watched registrations may lag behind.

    Raises:
        BookieInUseError: it is, and how cannot be read, as after the upgrade of its host.
    """
    try:
        return connection.registry.resolve(bookie_id) is not None
    except (DamageError, UnsupportedVersionError) as error:
        reason = f"it may be running: its registration cannot be read ({error})"
        raise BookieInUseError(bookie_id, reason) from error


def found_in(metadata: LedgerMetadata, bookie_id: str) -> LedgerFound:
    """Return the fragments and entries of a bookie according to a ledger's metadata."""
    quorum = metadata.quorum
    fragment_count = entry_count = 0
    for fragment, last in zip(metadata.fragments, ends_of(metadata), strict=True):
        if bookie_id in fragment.bookies:
            fragment_count += 1
            slot = fragment.bookies.index(bookie_id)
            if last is not None:
                entry_count += due_count(quorum, slot, fragment.first_entry_id, last)
    return LedgerFound(metadata.ledger_id, str(metadata.state), fragment_count, entry_count)


def _first(ledger_ids: Sequence[int]) -> str:
    """Return the first few ids, and the number of the others."""
    more = len(ledger_ids) - _SHOWN_COUNT
    shown = ", ".join(map(str, ledger_ids[:_SHOWN_COUNT]))
    return f"{shown} and {more} more" if more > 0 else shown


def _moved(ledger_id: int, result: RepairResult) -> LedgerMoved:
    outcome: MoveOutcome = "moved"
    why = ""
    if result.is_gone:
        outcome = "deleted"
    elif result.error is not None or result.is_stopped:
        outcome, why = "failed", str(result.error or "it was stopped")
    elif result.unrepairable:
        outcome, why = "unrepairable", result.unrepairable
    elif result.skipped_count:
        outcome, why = "open", "its writer still uses the bookie"
    counts = (result.replaced_count, result.copied_count, result.copied_size)
    return LedgerMoved(ledger_id, outcome, *counts, why)
