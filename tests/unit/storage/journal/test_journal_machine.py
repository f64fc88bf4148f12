"""The journal against a twin: a replay finds what was promised, a prefix of the rest, no more."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.journals import entries_record, open_journal, replay_all
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.storage.journal.record import JournalRecord
from zbk.storage.journal.segment import JournalPosition


class JournalMachine(RuleBasedStateMachine):
    """Appends, syncs, rolls, marks and crashes; the twin is a list of records."""

    @initialize()
    def begin(self) -> None:
        self.disk = SimulatedDisk()
        self.journal = open_journal(self.disk)
        self.number = 0
        self.records: list[JournalRecord] = []  # behind the mark
        self.synced_count = 0
        self.mark: JournalPosition | None = None

    @rule(
        groups=st.lists(st.lists(st.integers(1, 25), min_size=1, max_size=3), max_size=4),
        is_synced=st.booleans(),
    )
    def append(self, groups: list[list[int]], is_synced: bool) -> None:
        for counts in groups:
            group = []
            for count in counts:
                self.number += 1
                group.append(entries_record(self.number, count=count))
            self.journal.append(group)
            self.records += group
        if is_synced:
            self.journal.sync()
            self.synced_count = len(self.records)

    @rule(is_prepared=st.booleans(), is_noted=st.booleans())
    def tend(self, is_prepared: bool, is_noted: bool) -> None:
        if is_prepared:
            self.journal.prepare_next()
        if is_noted:
            self.journal.note_synced()

    @precondition(lambda self: len(self.records) > 6)
    @rule()
    def move_the_mark(self) -> None:
        # as a checkpoint does: what lies before the mark is safe elsewhere, synced here or not
        self.mark = self.journal.position
        self.records = []
        self.synced_count = 0
        self.journal.remove_before(self.mark)

    @precondition(lambda self: len(self.records) > 2)
    @rule(
        how=st.sampled_from(["killed", "closed", "power lost", "power lost twice"]),
        seed=st.integers(0, 2**32),
        step=st.integers(1, 6),
    )
    def stop_and_start(self, how: str, seed: int, step: int) -> None:
        if how == "closed":
            self.journal.close()
        if how in {"closed", "killed"}:
            self.disk.process_crash()
            self.synced_count = len(self.records)
        else:
            self.disk.crash(Random(seed))
        if how == "power lost twice":
            self.disk.crash_at = self.disk.operation_count + step
            try:
                self._restart()
            except SimulatedCrash:
                self.disk.crash(Random(seed + 1))
            self.disk.crash_at = None
        self._restart()

    def _restart(self) -> None:
        found, result = replay_all(self.disk, self.mark)
        assert len(found) >= self.synced_count, "everything promised"
        assert found == self.records[: len(found)], "a prefix, and nothing else"
        self.records = found
        self.synced_count = len(found)
        self.journal = open_journal(self.disk, result.end)


JournalMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


TestJournalMachine = JournalMachine.TestCase
