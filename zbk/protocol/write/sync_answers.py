"""The answers of the calls that wait for a sync.

``SyncRounds`` says which syncs are done or have failed. A sync of the application is answered after
its LAC was sent to the bookies (``explicit_lac``). The sync that serves the waits for single
entries has no answer of its own (``durable_waits``).
"""

from zbk.errors import ArgumentValueError, BusyError, ZbkError
from zbk.protocol.write.durable_waits import TICKET, DurableWaits
from zbk.protocol.write.events import Effect, SyncDone, SyncFailedFor, Ticket
from zbk.protocol.write.explicit_lac import ExplicitLac
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.write_path import WritePath


class SyncAnswers:
    """Drives the rounds of one writer and answers what waits for them."""

    __slots__ = ("_explicit_lac", "_path", "_slots", "_syncs", "waits")

    def __init__(
        self,
        path: WritePath,
        slots: WriterSlots,
        syncs: SyncRounds,
        explicit_lac: ExplicitLac,
        waits: DurableWaits,
    ) -> None:
        self._path = path
        self._slots = slots
        self._syncs = syncs
        self._explicit_lac = explicit_lac
        self.waits = waits

    @property
    def is_idle(self) -> bool:
        """True when no sync waits or runs, and no call waits for an entry."""
        return self._syncs.is_idle and not self.waits

    def drive(self, now_ms: int, *, may_wait: bool, is_held: bool) -> list[Effect]:
        """Begin and end rounds as they are due; the arguments are those of ``SyncRounds.drive``."""
        effects: list[Effect] = []
        if not self._syncs.is_idle:
            effects += self._drive_rounds(now_ms, may_wait=may_wait, is_held=is_held)
        if self.waits:
            effects += self.waits.drive(self._path.lac, self._syncs)
            effects += self._drive_rounds(now_ms, may_wait=may_wait, is_held=is_held)
        return effects

    def request(self, ticket: Ticket, refusal: ZbkError | None) -> list[Effect]:
        """Queue a sync of everything appended so far; return its failure if it is not taken."""
        if refusal is not None:
            return [SyncFailedFor(ticket, refusal)]
        try:
            self._syncs.request(ticket, self._path.last_appended_id)
        except BusyError as error:
            return [SyncFailedFor(ticket, error)]
        return []

    def wait_for(self, ticket: Ticket, entry_id: int) -> list[Effect]:
        """Record a wait for an entry; return its failure if it is not taken.

        No sync can cover an entry that was not appended, and those behind it would wait as well.
        """
        last_id = self._path.last_appended_id
        if entry_id > last_id:
            why = f"the last entry is {last_id}"
            return [SyncFailedFor(ticket, ArgumentValueError("entry_id", str(entry_id), why))]
        return self.waits.add(ticket, entry_id)

    def fail_waits(self, error: ZbkError) -> list[Effect]:
        """Forget the waits for entries; return their answers: those beyond the LAC fail."""
        return self.waits.fail_all(self._path.lac, error)

    def fail_all(self, error: ZbkError, in_doubt: ZbkError) -> list[Effect]:
        """Forget everything: syncs fail with ``error``, waits for entries with ``in_doubt``."""
        failures = self._syncs.fail_all(error, but=TICKET)
        return [*failures, *self.fail_waits(in_doubt), *self._explicit_lac.give_up()]

    def end(self, error: ZbkError) -> list[Effect]:
        """Forget what waits at the end of the ledger: its LAC does not move any more."""
        return [*self._explicit_lac.give_up(), *self.fail_waits(error)]

    def _drive_rounds(self, now_ms: int, *, may_wait: bool, is_held: bool) -> list[Effect]:
        path, slots = self._path, self._slots
        effects: list[Effect] = []
        for effect in self._syncs.drive(
            path.lac,
            path.last_acked_id,
            slots,
            now_ms,
            may_wait=may_wait,
            is_held=is_held,
        ):
            match effect:
                case SyncDone(ticket) if ticket is TICKET:
                    self.waits.synced()
                case SyncFailedFor(ticket, error) if ticket is TICKET:
                    effects += self.waits.failed(path.lac, error)
                case SyncDone():
                    effects += self._explicit_lac.publish(effect, slots.live, now_ms)
                case _:
                    effects.append(effect)
        return effects
