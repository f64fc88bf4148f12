"""WriterCore in a random cluster: nothing acked is lost, nothing answered twice, all ends well."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.quorums import quorums, unstriped_quorums
from tests.support.writer_cluster import PAYLOAD_SIZE_MAX, REFUSALS, WriterCluster
from zbk.protocol.quorum import Quorum
from zbk.protocol.words import LedgerType

FAULTS = ("refuse", "disconnect", "crash", "lose power", "lose all", "fence", "close")

slots = st.integers(0, 4)
faults = st.sets(st.sampled_from(FAULTS))
"""What may happen in one run at all: some bugs only show when other faults keep away."""

sizes = st.lists(st.integers(0, PAYLOAD_SIZE_MAX), max_size=8)


class WriterMachine(RuleBasedStateMachine):
    """Random appends, faults and answers; ``WriterCluster`` checks after every step."""

    ledger_type = LedgerType.PD_JOURNAL

    def start(self, quorum: Quorum, kinds: set[str]) -> None:
        self.faults = kinds
        self.cluster = WriterCluster(quorum, self.ledger_type)
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

    @rule()
    def serve_and_answer_all(self) -> None:
        for slot, bookie in enumerate(self.cluster.bookies):
            for _ in range(len(bookie.requests)):
                self.cluster.serve(slot)
            for _ in range(len(bookie.answers)):
                self.cluster.answer(slot, 0)

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
        assert self.cluster.end is not None, "after healing a writer can be closed"
        assert not self.cluster.is_waiting()
        assert self.cluster.core.window_size == 0


class PdMachine(WriterMachine):
    """PD ledgers, also striped ones."""

    @initialize(quorum=quorums, kinds=faults)
    def start_pd(self, quorum: Quorum, kinds: set[str]) -> None:
        self.start(quorum, kinds)


class VdMachine(WriterMachine):
    """VD ledgers: the LAC lags behind, restarts lose what was not synced."""

    ledger_type = LedgerType.VD_JOURNAL

    @initialize(quorum=unstriped_quorums, kinds=faults)
    def start_vd(self, quorum: Quorum, kinds: set[str]) -> None:
        self.start(quorum, kinds)


_settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestPdMachine = PdMachine.TestCase
TestVdMachine = VdMachine.TestCase
TestPdMachine.settings = _settings
TestVdMachine.settings = _settings


def _run(cluster: WriterCluster, rounds: int) -> None:
    for slot in range(cluster.quorum.ensemble_size):
        cluster.connect(slot)
    for number in range(rounds):
        cluster.append([number % PAYLOAD_SIZE_MAX, 1, 2])
        for slot in range(cluster.quorum.ensemble_size):
            cluster.serve(slot)
            cluster.answer(slot, 0)


@pytest.mark.parametrize("ledger_type", list(LedgerType))
def test_without_faults_everything_is_acked_synced_and_closed(ledger_type: LedgerType) -> None:
    cluster = WriterCluster(Quorum(3, 3, 2), ledger_type)

    _run(cluster, 100)
    cluster.sync()
    cluster.heal()
    cluster.close()

    assert cluster.acked_id == cluster.core.lac == 299
    assert cluster.seen >= {"Acked", "SendAdd", "SyncDone", "CloseLedger"}
    assert cluster.end is not None


@pytest.mark.parametrize(
    ("break_it", "name"),
    [
        (lambda cluster: setattr(cluster.bookies[1], "is_fenced", True), "LedgerFencedError"),
        (lambda cluster: cluster.bookies[0].crash(loses_power=True), "suspect: WrongBookieError"),
    ],
)
def test_the_cluster_reaches_what_it_is_made_for(
    break_it: Callable[[WriterCluster], None], name: str
) -> None:
    cluster = WriterCluster(Quorum(3, 3, 3), LedgerType.VD_JOURNAL)
    _run(cluster, 3)

    break_it(cluster)
    _run_again(cluster)

    assert name in cluster.seen


def _run_again(cluster: WriterCluster) -> None:
    cluster.append([1])
    for slot in range(cluster.quorum.ensemble_size):
        cluster.serve(slot)
        cluster.answer(slot, 0)
