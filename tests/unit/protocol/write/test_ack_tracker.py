"""AckTracker against golden scripts and against a slow twin that counts entries, not ranges."""

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.support.golden import run_script, scripts
from tests.support.quorums import quorums
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.ack_tracker import AckTracker


def _ids(entry_ids: range) -> str:
    if not entry_ids:
        return "-"
    return f"e{entry_ids[0]}" if len(entry_ids) == 1 else f"e{entry_ids[0]}..e{entry_ids[-1]}"


class AckScript:
    """The commands a golden script may use."""

    def __init__(self) -> None:
        self.tracker = AckTracker(Quorum(1, 1, 1))

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        return str(getattr(self, f"do_{name}")(*(int(arg) for arg in args)))

    def do_quorum(self, ensemble: int, write: int, ack: int) -> str:
        self.tracker = AckTracker(Quorum(ensemble, write, ack))
        return f"E={ensemble} Qw={write} Qa={ack}"

    def do_push(self, count: int) -> str:
        return f"pushed {_ids(self.tracker.push(count))}"

    def do_ack(self, slot: int, first: int) -> str:
        confirmed = self.tracker.ack(slot, first)
        return f"s{slot} acks e{first}  confirms {_ids(confirmed)}  {self._state()}"

    def do_revoke(self, slot: int) -> str:
        resend = [_ids(entry_ids) for entry_ids in self.tracker.revoke(slot)]
        return f"s{slot} revoked  resend {' '.join(resend) or '-'}  {self._state()}"

    def do_hold(self) -> str:
        self.tracker.hold()
        return "held"

    def do_release(self) -> str:
        return f"released  confirms {_ids(self.tracker.release())}  {self._state()}"

    def do_lost(self, *slots: int) -> str:
        names = " ".join(f"s{slot}" for slot in slots)
        return f"without {names}: {'reachable' if self.tracker.is_reachable(slots) else 'lost'}"

    def _state(self) -> str:
        return f"last={self.tracker.last_acked_id} pending={self.tracker.pending_count}"


@pytest.mark.parametrize("script", scripts("ack_tracker"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite_golden: bool) -> None:
    run_script(script, AckScript(), rewrite=rewrite_golden)


class AckMachine(RuleBasedStateMachine):
    """Random pushes, acks and revocations; the twin keeps a set of slots for each entry."""

    @initialize(quorum=quorums, last=st.integers(-1, 20))
    def start(self, quorum: Quorum, last: int) -> None:
        self.quorum = quorum
        self.tracker = AckTracker(quorum, last)
        self.ranges: list[range] = []
        self.acks: dict[int, set[int]] = {}
        self.first = last + 1
        self.last_acked = last
        self.is_held = False

    def _twin_last_acked(self) -> int:
        last = self.last_acked
        for entry_ids in self.ranges:
            if entry_ids[0] == last + 1 and all(
                len(self.acks[entry_id]) >= self.quorum.ack_size for entry_id in entry_ids
            ):
                last = entry_ids[-1]
        return last

    def _pending(self) -> list[range]:
        return [entry_ids for entry_ids in self.ranges if entry_ids[0] > self.last_acked]

    @rule(count=st.integers(1, 7))
    def push(self, count: int) -> None:
        entry_ids = self.tracker.push(count)
        assert entry_ids[0] == self.first + len(self.acks)
        self.ranges.append(entry_ids)
        self.acks |= {entry_id: set() for entry_id in entry_ids}

    @precondition(lambda self: self.ranges)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        slot = data.draw(st.integers(0, self.quorum.ensemble_size - 1))
        entry_ids = data.draw(st.sampled_from(self.ranges[-6:]))
        confirmed = self.tracker.ack(slot, entry_ids[0])
        for entry_id in entry_ids:
            if self.quorum.holds(slot, entry_id):
                self.acks[entry_id].add(slot)
        self._check_confirmed(confirmed)

    def _check_confirmed(self, confirmed: range) -> None:
        last = self.last_acked if self.is_held else self._twin_last_acked()
        assert list(confirmed) == list(range(self.last_acked + 1, last + 1))
        self.last_acked = last

    @rule()
    def hold(self) -> None:
        self.tracker.hold()
        self.is_held = True

    @rule()
    def release(self) -> None:
        self.is_held = False
        self._check_confirmed(self.tracker.release())

    @rule(first=st.integers(-5, 200))
    def ack_of_no_range(self, first: int) -> None:
        if first not in {entry_ids[0] for entry_ids in self.ranges}:
            assert not self.tracker.ack(0, first)

    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        slot = data.draw(st.integers(0, self.quorum.ensemble_size - 1))
        resend = self.tracker.revoke(slot)
        holds = [ids for ids in self._pending() if any(self.quorum.holds(slot, e) for e in ids)]
        assert resend == holds
        for entry_ids in self._pending():
            for entry_id in entry_ids:
                self.acks[entry_id].discard(slot)

    @rule(data=st.data())
    def count_on(self, data: st.DataObject) -> None:
        failed = data.draw(st.sets(st.integers(0, self.quorum.ensemble_size - 1)))
        is_reachable = all(
            len(self.acks[e] | (set(self.quorum.write_set(e)) - failed)) >= self.quorum.ack_size
            for entry_ids in self._pending()
            for e in entry_ids
        )
        assert self.tracker.is_reachable(failed) == is_reachable

    @invariant()
    def agrees_with_twin(self) -> None:
        if not self.is_held:
            assert self._twin_last_acked() == self.last_acked, "only an ack or a release confirms"
        assert self.tracker.last_acked_id == self.last_acked
        assert self.tracker.pending_count == sum(map(len, self._pending()))
        for slot in range(self.quorum.ensemble_size):
            unacked = [
                ids
                for ids in self._pending()
                if any(self.quorum.holds(slot, e) and slot not in self.acks[e] for e in ids)
            ]
            assert list(self.tracker.unacked(slot)) == unacked


TestAckMachine = AckMachine.TestCase
TestAckMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_what_others_know_to_be_durable_is_confirmed_also_while_held() -> None:
    tracker = AckTracker(Quorum(3, 3, 2))
    for _ in range(3):
        tracker.push(2)
    tracker.hold()
    tracker.ack(0, 4)
    tracker.ack(1, 4)

    assert tracker.confirm_until(-1) == range(0)
    assert tracker.confirm_until(2) == range(2), "up to the last range that ends there"
    assert tracker.confirm_until(2) == range(2, 2)
    assert (tracker.last_acked_id, tracker.pending_count) == (1, 4)
    assert tracker.confirm_until(3) == range(2, 4)
    assert tracker.release() == range(4, 6)
