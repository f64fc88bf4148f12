"""WriterCore in long random runs from seeds: they keep every promise and reach every danger."""

import random
from collections.abc import Callable, Iterable

import pytest

from tests.support.writer_cluster import REFUSALS, WriterCluster
from tests.support.writer_limits import PAYLOAD_SIZE_MAX
from tests.support.writer_metadata import Store
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import CloseLedger, SendSync
from zbk.protocol.write.write_window import WriteBatch, WriteWindow


class SeededRun:
    """One long run: the seed first draws which faults there are and how often, then the steps.

    Hypothesis finds and shrinks short stories; these go where only hundreds of steps lead.
    """

    def __init__(self, seed: int, ledger_type: LedgerType) -> None:
        self.random = random.Random(seed)
        size = self.random.randint(1, 4)
        write = size if ledger_type.is_volatile else self.random.randint(1, size)
        self.quorum = Quorum(size, write, self.random.randint(1, write))
        self.cluster = WriterCluster(self.quorum, ledger_type, self.random.randrange(4))
        every: list[Callable[[int], None]] = [
            self._refuse,
            self._disconnect,
            self._crash_unseen,
            self._lose_power,
            self._fence,
            self._lose_all,
            self._metadata_badly,
            self._repair,
            self._recover,
            self._writable,
            self._freeze,
            self._refuse_syncs,
            self._sync_from_outside,
            self._cannot_catch_up,
        ]
        rates = [0.05, 0.05, 0.02, 0.05, 0.001, 0.005, 0.1, 0.01, 0.001, 0.05, 0.01, 0.003]
        rates += [0.02, 0.02]
        self.faults = [
            (fault, rate)
            for fault, rate in zip(every, rates, strict=True)
            if self.random.random() < 0.5
        ]

    def run(self, step_count: int) -> WriterCluster:
        cluster = self.cluster
        for slot in range(self.quorum.ensemble_size):
            cluster.connect(slot)
        for _ in range(step_count):
            slot = self.random.randrange(self.quorum.ensemble_size)
            for fault, rate in self.faults:
                if self.random.random() < rate:
                    fault(slot)
            self.random.choice(self._steps())(slot)
        if self.random.random() < 0.5:
            cluster.close()
        cluster.heal()
        assert not cluster.is_waiting(), "after healing everything is answered"
        if cluster.close_ticket is None:
            cluster.close()
            cluster.heal()
        self._check_that_nothing_healthy_is_cut_off()
        if cluster.is_stuck:
            cluster.close(accepts_loss=True)
            cluster.heal()
        assert isinstance(cluster.end, CloseLedger) or not cluster.is_stuck
        assert cluster.end is not None
        assert cluster.core.path.backlog_size == 0
        cluster.check_copies()
        return cluster

    def _check_that_nothing_healthy_is_cut_off(self) -> None:
        # the writer keeps what is not durable: whatever bookies lost, they get again
        if self.cluster.core.error is None:
            assert isinstance(self.cluster.end, CloseLedger)

    def _steps(self) -> list[Callable[[int], None]]:
        serve, answer = self.cluster.serve, self._answer
        bookies = [serve, serve, serve, answer, answer, answer, self._stale]
        return [self._append, *bookies, self._rarely, self._up, self._metadata]

    def _metadata(self, _slot: int) -> None:
        self.cluster.serve_metadata()
        self.cluster.note_reports()

    def _metadata_badly(self, _slot: int) -> None:
        self.cluster.serve_metadata(self.random.choice(list(Store)))

    def _repair(self, _slot: int) -> None:
        self.cluster.repair_old_fragment()

    def _recover(self, _slot: int) -> None:
        self.cluster.recover()

    def _stale(self, _slot: int) -> None:
        bookie_id = self.random.choice(list(self.cluster.pool))
        self.cluster.serve_bookie(bookie_id)
        self.cluster.answer_of(bookie_id, 0)

    def _writable(self, _slot: int) -> None:
        bookie_id = self.random.choice(list(self.cluster.pool))
        self.cluster.set_writable(bookie_id, is_writable=self.random.random() < 0.6)

    def _sync_from_outside(self, _slot: int) -> None:
        self.cluster.sync_from_outside()

    def _cannot_catch_up(self, _slot: int) -> None:
        bookie_id = self.random.choice(list(self.cluster.pool))
        self.cluster.pool[bookie_id].catches_up = self.random.random() < 0.7

    def _freeze(self, slot: int) -> None:
        """Append until the window is full, while one bookie takes nothing."""
        for _ in range(10):
            self.cluster.append([PAYLOAD_SIZE_MAX])
            for other in range(self.quorum.ensemble_size):
                if other != slot:
                    self.cluster.serve(other)
                    self.cluster.answer(other, 0)
            self.cluster.wait(100)

    def _refuse_syncs(self, _slot: int) -> None:
        """Append until too much is not durable, while no bookie can sync."""
        for _ in range(30):
            self.cluster.append([PAYLOAD_SIZE_MAX])
            for slot in range(self.quorum.ensemble_size):
                for _request in range(3):
                    requests = self.cluster.bookies[slot].requests
                    is_sync = bool(requests) and isinstance(requests[0], SendSync)
                    self.cluster.serve(slot, REFUSALS[0] if is_sync else None)
                    self.cluster.answer(slot, 0)
            self.cluster.wait(100)

    def _append(self, _slot: int) -> None:
        sizes = self.random.choices(range(PAYLOAD_SIZE_MAX + 1), k=self.random.randrange(6))
        self.random.choice([self.cluster.append, self.cluster.append_each])(sizes)

    def _answer(self, slot: int) -> None:
        if self.random.randrange(4):
            self.cluster.answer(slot, self.random.choice([0, 0, 0, 1, 2]))
            return
        size = len(self.cluster.bookies)
        picks = [(self.random.randrange(size), self.random.choice([0, 0, 1])) for _ in range(5)]
        self.cluster.answer_together(picks)

    def _rarely(self, slot: int) -> None:
        match self.random.randrange(4):
            case 0:
                self.cluster.sync()
            case 1:
                self.cluster.wait(self.random.randrange(300))
            case 2:
                self.cluster.bookies[slot].durable |= self.cluster.bookies[slot].held
            case _:
                self._answer(slot)

    def _up(self, slot: int) -> None:
        if not self.cluster.bookies[slot].is_connected:
            self.cluster.connect(slot)

    def _refuse(self, slot: int) -> None:
        self.cluster.serve(slot, self.random.choice(REFUSALS))

    def _disconnect(self, slot: int) -> None:
        self.cluster.disconnect(slot)

    def _crash_unseen(self, slot: int) -> None:
        self.cluster.bookies[slot].crash(loses_power=self.random.random() < 0.5)

    def _lose_power(self, slot: int) -> None:
        self.cluster.bookies[slot].crash(loses_power=True)
        self.cluster.connect(slot)

    def _fence(self, slot: int) -> None:
        self.cluster.bookies[slot].is_fenced = True

    def _lose_all(self, _slot: int) -> None:
        for slot in range(self.quorum.ensemble_size):
            self.cluster.disconnect(slot)
        for _ in range(3):
            self.cluster.serve_metadata()
            self.cluster.wait(self.random.randrange(600))


# what a hundred runs must have met, or they prove nothing
REACHED_BY_VOLATILE = {
    *("Acked", "SendAdd", "SendSync", "SyncDone", "CloseLedger", "CloseFailed"),
    *("LedgerFencedError", "NotEnoughBookiesError", "CannotAdvanceError"),
    *("sync: CannotAdvanceError", "sync: BusyError", "close: NotDurableError"),
    "close: a loss that was accepted",
    *("suspect: BusyError", "suspect: WrongBookieError", "missing"),
    *("ChangeEnsemble", "changed", "repaired", "replaced twice", "slow bookie replaced"),
    *("change: NotEnoughBookiesError", "change: MetadataUnavailableError"),
    *("late answer of a replaced bookie", "a new bookie catches up"),
    *("a fragment starts below what is acknowledged", "a new bookie cannot catch up"),
    *("reported from outside", "urgent", "held acks"),
}
REACHED = {
    LedgerType.PD_JOURNAL: {
        *("Acked", "SendAdd", "SyncDone", "CloseLedger", "CloseFailed"),
        *("LedgerFencedError", "NotEnoughBookiesError"),
        *("suspect: BusyError", "suspect: WrongBookieError"),
        *("ChangeEnsemble", "changed", "urgent", "repaired", "SendLac"),
        *("change: NotEnoughBookiesError", "change: MetadataUnavailableError"),
        *("change: LedgerFencedError", "replaced twice", "slow bookie replaced"),
        *("late answer of a replaced bookie", "too many changes", "held acks"),
        *("ReportMissing", "missing", "reported"),
    },
    LedgerType.VD_JOURNAL: REACHED_BY_VOLATILE,
    LedgerType.VD_BYPASS_JOURNAL: REACHED_BY_VOLATILE,
}


@pytest.mark.parametrize("ledger_type", list(LedgerType))
def test_long_runs_keep_every_promise_and_reach_every_danger(ledger_type: LedgerType) -> None:
    """B20: whatever fails, every append is answered, in order, and nothing is left in a queue."""
    assert _run_seeds(range(120), ledger_type) >= REACHED[ledger_type]


def _run_seeds(seeds: Iterable[int], ledger_type: LedgerType) -> set[str]:
    """Run each seed; return all that they have seen."""
    seen: set[str] = set()
    for seed in seeds:
        try:
            seen |= SeededRun(seed, ledger_type).run(step_count=250).seen
        except AssertionError as failure:
            failure.add_note(f"seed {seed}")
            raise
    return seen


_acked_until = WriteWindow.acked_until


def _frees_at_acknowledgement(self: WriteWindow, last_entry_id: int) -> list[WriteBatch]:
    acked = _acked_until(self, last_entry_id)
    if self.unsynced:
        self.durable_until(last_entry_id)
    return acked


def test_long_runs_see_a_vd_writer_that_frees_what_is_not_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WriteWindow, "acked_until", _frees_at_acknowledgement)

    with pytest.raises(AssertionError):
        _run_seeds(range(120), LedgerType.VD_JOURNAL)
