"""What a writer promises with its LAC, its ensembles and its end, judged as it goes."""

from collections.abc import Callable
from typing import Final

from tests.simulation.world import World
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write.events import ChangeEnsemble
from zbk.protocol.write.writer import WriterCore

LOSS_SHARE: Final = 2
"""Of so many ledgers, the application of one lets acknowledged entries go that are not durable."""


def may_lose(ledger_id: int) -> bool:
    """Return whether the application of a ledger lets go what is not durable when it closes."""
    return ledger_id % LOSS_SHARE == LOSS_SHARE - 1


class WriterOracle:
    """Judges one writer; ``current`` returns the metadata as it knows them."""

    def __init__(
        self,
        world: World,
        current: Callable[[], LedgerMetadata],
        core: WriterCore,
        *,
        accepts_loss: bool,
    ) -> None:
        self._world = world
        self._current = current
        self._ledger_id = current().ledger_id
        self._core = core
        self._accepts_loss = accepts_loss
        self._checked_lac = NO_ENTRY
        self._sent_id = NO_ENTRY  # the last entry that any bookie was sent
        self.told_id = NO_ENTRY  # the last one that the application knows to be acknowledged
        self.is_over = False
        self._judged = current().last_fragment
        self._change_id = -1
        self._held: set[tuple[str, int]] = set()  # bookies and acknowledged entries, at a change
        world.metadata.watchers.append(self._check_fragment)

    def sent(self, last_entry_id: int) -> None:
        """Note that a bookie was sent entries up to this one."""
        self._sent_id = max(self._sent_id, last_entry_id)

    def told(self, last_entry_id: int) -> None:
        """Note that the application knows entries up to this one to be acknowledged."""
        self.told_id = max(self.told_id, last_entry_id)

    def check_lac(self) -> None:
        """I7: all up to the LAC is on stable storage at an ack quorum of its write set."""
        lac = self._core.path.lac
        if lac > self._checked_lac:
            self._world.check_durable(self._ledger_id, self._checked_lac + 1, lac)
            self._checked_lac = lac

    def check_end(self, last_entry_id: int) -> None:
        """I14, I37: a ledger is not closed behind what is acknowledged, and nothing is dropped."""
        self._check_nothing_dropped(last_entry_id)
        if last_entry_id > self._core.path.last_acked_id:
            text = f"ledger {self._ledger_id} is closed at {last_entry_id}"
            self._world.violated("I14", f"{text}, {self._core.path.last_acked_id} is acknowledged")

    def _check_fragment(self, metadata: LedgerMetadata) -> None:
        """I13, I22: a new fragment starts after all that is durable, or that others reported.

        An ack quorum of its bookies, as before, has what is acknowledged beyond: those that stay
        had it when the change was decided, and the new ones have it on stable storage.
        """
        is_mine = metadata.ledger_id == self._ledger_id and not self.is_over
        if not is_mine or metadata.state is not LedgerState.OPEN:
            return
        fragment, before = metadata.last_fragment, self._judged
        self._judged = fragment
        if fragment == before:
            return
        path, start = self._core.path, fragment.first_entry_id
        reported_lac = metadata.reported_lac if isinstance(metadata.reported_lac, int) else NO_ENTRY
        text = f"ledger {self._ledger_id}: a fragment starts at {start}"
        if start != max(path.lac, reported_lac) + 1:
            told = f"entries up to {path.lac} are durable, others reported {reported_lac}"
            self._world.violated("I22", f"{text}, {told}")
        if not self._current().ledger_type.is_volatile:
            if start != path.last_acked_id + 1:
                acked_id = path.last_acked_id
                self._world.violated("I13", f"{text}, {acked_id} was the last entry acknowledged")
            return
        sometimes = self._world.sometimes
        sometimes["writer: the ensemble of a VD ledger was changed"] += 1
        sometimes["writer: a VD fragment starts below what is acknowledged"] += (
            start <= path.last_acked_id
        )
        sometimes["writer: a VD fragment starts where others reported"] += path.lac < reported_lac
        for entry_id in range(start, path.last_acked_id + 1):
            slots = metadata.quorum.write_set(entry_id)
            members = [fragment.bookies[slot] for slot in slots]
            count = sum(self._moved(one, entry_id, one in before.bookies) for one in members)
            had_count = sum((before.bookies[slot], entry_id) in self._held for slot in slots)
            if count < min(metadata.ack_quorum_size, had_count):  # fewer after a loss of power
                told = f"entry {entry_id} is acknowledged, {count} of {members} have it"
                self._world.violated("I13", f"{text}; {told}")

    def changes(self, change: ChangeEnsemble) -> None:
        """Note which bookies have what is acknowledged, or may have lost it unseen, now."""
        if change.change_id == self._change_id:
            return  # again
        self._change_id = change.change_id
        path, slots = self._core.path, self._core.slots
        self._held = {
            (bookie_id, entry_id)
            for slot, bookie_id in enumerate(slots.bookies)
            for entry_id in range(path.lac + 1, path.last_acked_id + 1)
            if self._world.bookie(bookie_id).oracle.has(self._ledger_id, entry_id)
            or self._is_restart_unseen(bookie_id, slots._slots[slot].incarnation)
        }

    def _is_restart_unseen(self, bookie_id: str, incarnation: int) -> bool:
        bookie = self._world.bookie(bookie_id)
        return not bookie.node.is_alive or bookie.incarnation != incarnation

    def _moved(self, bookie_id: str, entry_id: int, is_staying: bool) -> bool:
        """Return whether a bookie of a new fragment counts as one that has an entry."""
        if is_staying:
            return (bookie_id, entry_id) in self._held
        bookie = self._world.bookie(bookie_id)
        return bookie.is_lost or bookie.oracle.is_durable(self._ledger_id, entry_id)

    def _check_nothing_dropped(self, last_entry_id: int) -> None:
        """I37: no call drops an entry that a client relies on, unless it may.

        Of a VD ledger others can sync, and read, whatever was sent.
        """
        is_volatile = self._current().ledger_type.is_volatile
        if is_volatile and self.told_id <= last_entry_id < self._sent_id and not self._accepts_loss:
            text = f"ledger {self._ledger_id} is closed at {last_entry_id}"
            self._world.violated("I37", f"{text}, entries up to {self._sent_id} were sent")
        if last_entry_id >= self.told_id:
            return
        if self._accepts_loss:
            self._world.sometimes["writer: a close drops what it may"] += 1
            return
        text = f"ledger {self._ledger_id} is closed at {last_entry_id}"
        self._world.violated("I37", f"{text}, entry {self.told_id} was acknowledged")
