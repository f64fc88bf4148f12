"""WriterCore in a random cluster: nothing acked is lost, nothing answered twice, all ends well.

Hypothesis finds the stories. Runs of hundreds of steps are in ``test_writer_long_runs``.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.quorums import quorums, unstriped_quorums
from tests.support.writer_cluster import REFUSALS, WriterCluster
from tests.support.writer_limits import PAYLOAD_SIZE_MAX
from tests.support.writer_metadata import Store
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum

FAULTS = (
    *("refuse", "disconnect", "crash", "lose power", "lose all", "fence", "close"),
    *("metadata", "repair", "recover"),
)

slots = st.integers(0, 4)
bookies = st.integers(0, 7)
faults = st.sets(st.sampled_from(FAULTS))
"""What may happen in one run at all: some bugs only show when other faults keep away."""

sizes = st.lists(st.integers(0, PAYLOAD_SIZE_MAX), max_size=8)


class WriterMachine(RuleBasedStateMachine):
    """Random appends, faults and answers; ``WriterCluster`` checks after every step."""

    ledger_type = LedgerType.PD_JOURNAL

    def start(self, quorum: Quorum, kinds: set[str], spare_count: int = 0) -> None:
        self.faults = kinds
        self.cluster = WriterCluster(quorum, self.ledger_type, spare_count)
        for slot in range(quorum.ensemble_size):
            self.cluster.connect(slot)

    def _slot(self, slot: int) -> int:
        return slot % self.cluster.quorum.ensemble_size

    @rule(sizes=sizes)
    def append(self, sizes: list[int]) -> None:
        self.cluster.append(sizes)

    @rule(sizes=sizes)
    def append_each(self, sizes: list[int]) -> None:
        self.cluster.append_each(sizes)

    @rule()
    def sync(self) -> None:
        self.cluster.sync()

    @rule(slot=slots, count=st.integers(1, 6))
    def serve(self, slot: int, count: int) -> None:
        for _ in range(count):
            self.cluster.serve(self._slot(slot))

    @rule(slot=slots, index=st.integers(0, 5), count=st.integers(1, 6))
    def answer(self, slot: int, index: int, count: int) -> None:
        for _ in range(count):
            self.cluster.answer(self._slot(slot), index)

    @rule(picks=st.lists(st.tuples(slots, st.integers(0, 5)), max_size=9))
    def answer_together(self, picks: list[tuple[int, int]]) -> None:
        self.cluster.answer_together([(self._slot(slot), index) for slot, index in picks])

    @rule()
    def serve_and_answer_all(self) -> None:
        for slot, bookie in enumerate(self.cluster.bookies):
            for _ in range(len(bookie.requests)):
                self.cluster.serve(slot)
            for _ in range(len(bookie.answers)):
                self.cluster.answer(slot, 0)

    def _bookie_id(self, number: int) -> str:
        names = list(self.cluster.pool)
        return names[number % len(names)]

    @rule(number=bookies, index=st.integers(0, 5))
    def serve_and_answer_of_any_bookie(self, number: int, index: int) -> None:
        self.cluster.serve_bookie(self._bookie_id(number))
        self.cluster.answer_of(self._bookie_id(number), index)

    @rule()
    def serve_metadata(self) -> None:
        self.cluster.serve_metadata()

    @rule()
    def note_reports(self) -> None:
        self.cluster.note_reports()

    @precondition(lambda self: "metadata" in self.faults)
    @rule(store=st.sampled_from(Store))
    def serve_metadata_badly(self, store: Store) -> None:
        self.cluster.serve_metadata(store)

    @rule(number=bookies, is_writable=st.booleans())
    def set_writable(self, number: int, is_writable: bool) -> None:
        self.cluster.set_writable(self._bookie_id(number), is_writable=is_writable)

    @rule()
    def sync_from_outside(self) -> None:
        self.cluster.sync_from_outside()

    @rule(number=bookies, can=st.booleans())
    def catch_up(self, number: int, can: bool) -> None:
        self.cluster.pool[self._bookie_id(number)].catches_up = can

    @precondition(lambda self: "repair" in self.faults)
    @rule()
    def repair_old_fragment(self) -> None:
        self.cluster.repair_old_fragment()

    @precondition(lambda self: "recover" in self.faults and self.cluster.acked_id >= 0)
    @rule()
    def recover(self) -> None:
        self.cluster.recover()

    @precondition(lambda self: "refuse" in self.faults)
    @rule(slot=slots, refusal=st.sampled_from(REFUSALS))
    def refuse(self, slot: int, refusal: Exception) -> None:
        self.cluster.serve(self._slot(slot), refusal)  # type: ignore[arg-type] # all are ZbkErrors

    @rule(slot=slots)
    def sync_in_the_background(self, slot: int) -> None:
        bookie = self.cluster.bookies[self._slot(slot)]
        bookie.durable |= bookie.held

    @precondition(lambda self: "disconnect" in self.faults)
    @rule(slot=slots)
    def disconnect(self, slot: int) -> None:
        self.cluster.disconnect(self._slot(slot))

    @rule(slot=slots)
    def connect(self, slot: int) -> None:
        self.cluster.connect(self._slot(slot))

    @precondition(lambda self: "crash" in self.faults)
    @rule(slot=slots, loses_power=st.booleans())
    def crash_unseen(self, slot: int, loses_power: bool) -> None:
        self.cluster.bookies[self._slot(slot)].crash(loses_power=loses_power)

    @precondition(lambda self: "lose power" in self.faults)
    @rule(slot=slots)
    def lose_power_and_come_back(self, slot: int) -> None:
        self.cluster.bookies[self._slot(slot)].crash(loses_power=True)
        self.cluster.connect(self._slot(slot))

    @precondition(lambda self: "lose all" in self.faults and self.cluster.acked_id >= 0)
    @rule()
    def lose_all_for_long(self) -> None:
        for slot in range(self.cluster.quorum.ensemble_size):
            self.cluster.disconnect(slot)
        self.cluster.serve_metadata()
        self.cluster.wait(500)
        self.cluster.wait(500)

    @rule(ms=st.integers(0, 700))
    def wait(self, ms: int) -> None:
        self.cluster.wait(ms)

    @precondition(lambda self: "fence" in self.faults and self.cluster.acked_id >= 0)
    @rule(slot=slots)
    def fence(self, slot: int) -> None:
        self.cluster.bookies[self._slot(slot)].is_fenced = True

    @precondition(lambda self: "close" in self.faults and self.cluster.acked_id >= 0)
    @rule()
    def close(self) -> None:
        self.cluster.close()

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.cluster.heal()
        assert not self.cluster.is_waiting(), "after healing everything is answered"
        if self.cluster.close_ticket is None:
            self.cluster.close()
            self.cluster.heal()
        if self.cluster.is_stuck:  # bookies have lost what they had acknowledged
            self.cluster.close(accepts_loss=True)
            self.cluster.heal()
        assert self.cluster.end is not None, "after healing a writer can be closed"
        assert not self.cluster.is_stuck
        assert not self.cluster.is_waiting()
        assert self.cluster.core.path.backlog_size == 0
        self.cluster.check_copies()


class PdMachine(WriterMachine):
    """PD ledgers, also striped ones."""

    @initialize(quorum=quorums, kinds=faults, spare_count=st.integers(0, 3))
    def start_pd(self, quorum: Quorum, kinds: set[str], spare_count: int) -> None:
        self.start(quorum, kinds, spare_count)


class VdMachine(WriterMachine):
    """VD ledgers: the LAC lags behind, restarts lose what was not synced."""

    ledger_type = LedgerType.VD_JOURNAL

    @initialize(quorum=unstriped_quorums, kinds=faults, spare_count=st.integers(0, 3))
    def start_vd(self, quorum: Quorum, kinds: set[str], spare_count: int) -> None:
        self.start(quorum, kinds, spare_count)


_settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
)
TestPdMachine = PdMachine.TestCase
TestVdMachine = VdMachine.TestCase
TestPdMachine.settings = _settings
TestVdMachine.settings = _settings
