"""What a bookie admits for a ledger: keys, types, fences; and what it reports."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.synced_run import SyncedRun
from zbk.errors import LedgerFencedError, UnauthorizedError, UnsupportedLedgerError, ZbkError
from zbk.protocol.entry.words import LedgerType

KEY = b"k" * 16
OTHER_KEY = b"o" * 16
PD = LedgerType.PD_JOURNAL
VD = LedgerType.VD_JOURNAL


def known(ledger_type: LedgerType = VD) -> BookieLedger:
    ledger = BookieLedger(7)
    ledger.admit_add(KEY, ledger_type, is_recovery=False)
    return ledger


# ------------------------------------------------------------------ key and type


def test_the_first_add_brings_key_and_type() -> None:
    ledger = BookieLedger(7)

    needs_key_record = ledger.admit_add(KEY, VD, is_recovery=False)

    assert needs_key_record
    assert (ledger.ledger_key, ledger.ledger_type) == (KEY, VD)
    assert not ledger.admit_add(KEY, VD, is_recovery=False), "the record is asked for once"


def test_a_ledger_known_from_disk_needs_no_key_record() -> None:
    ledger = BookieLedger(7, ledger_key=KEY, ledger_type=VD, lac=3, last_add_synced=9)

    assert not ledger.admit_add(KEY, VD, is_recovery=False)
    assert (ledger.lac, ledger.last_add_synced) == (3, 9)


def test_another_key_is_refused_whatever_it_asks_for() -> None:
    ledger = known()

    for ask in (
        lambda: ledger.check_key(OTHER_KEY),
        lambda: ledger.admit_add(OTHER_KEY, VD, is_recovery=False),
        lambda: ledger.admit_add(OTHER_KEY, VD, is_recovery=True),
        lambda: ledger.admit_sync(OTHER_KEY),
        lambda: ledger.fence(OTHER_KEY, VD),
    ):
        with pytest.raises(UnauthorizedError):
            ask()
    assert not ledger.is_fenced, "a wrong password does not fence"


def test_another_type_is_refused_with_a_clear_error() -> None:
    with pytest.raises(UnsupportedLedgerError, match="of type VD_JOURNAL at this bookie"):
        known(VD).admit_add(KEY, PD, is_recovery=False)


def test_a_refused_first_request_leaves_nothing_behind() -> None:
    ledger = BookieLedger(7, is_fenced=True)

    with pytest.raises(LedgerFencedError):
        ledger.admit_add(KEY, VD, is_recovery=False)

    assert ledger.ledger_key is None


# ------------------------------------------------------------------ fence


def test_adds_are_refused_from_the_moment_a_fence_is_accepted() -> None:
    ledger = known()

    assert ledger.fence(KEY, VD) == (False, True)

    assert ledger.is_fenced
    assert not ledger.is_fence_durable, "not to be answered yet"
    with pytest.raises(LedgerFencedError):
        ledger.admit_add(KEY, VD, is_recovery=False)


def test_a_second_fence_waits_for_the_record_of_the_first() -> None:
    ledger = known()
    ledger.fence(KEY, VD)

    assert ledger.fence(KEY, VD) == (False, False)
    assert not ledger.is_fence_durable
    ledger.fence_synced()

    assert ledger.is_fence_durable
    assert ledger.fence(KEY, VD) == (False, False)


def test_recovery_adds_pass_a_fence_and_are_synced() -> None:
    ledger = known()
    ledger.fence(KEY, VD)

    ledger.admit_add(KEY, VD, is_recovery=True)

    assert ledger.acknowledges_after(is_recovery=True) == "sync"


def test_the_sync_cursor_is_told_until_the_ledger_is_fenced() -> None:
    ledger = known()
    ledger.admit_sync(KEY)

    ledger.fence(KEY, VD)

    with pytest.raises(LedgerFencedError):
        ledger.admit_sync(KEY)


def test_a_fence_of_an_unknown_ledger_needs_a_key_record_too() -> None:
    ledger = BookieLedger(7)

    assert ledger.fence(KEY, PD) == (True, True)
    with pytest.raises(UnauthorizedError):
        ledger.check_key(OTHER_KEY)


def test_a_fence_survives_a_restart() -> None:
    ledger = BookieLedger(7, ledger_key=KEY, ledger_type=PD, is_fenced=True)

    assert ledger.is_fence_durable
    with pytest.raises(LedgerFencedError):
        ledger.admit_add(KEY, PD, is_recovery=False)


# ------------------------------------------------------------------ when to answer, what to say


@pytest.mark.parametrize(("ledger_type", "after"), [(PD, "sync"), (VD, "write")])
def test_an_add_is_answered_as_its_type_promises(ledger_type: LedgerType, after: str) -> None:
    assert known(ledger_type).acknowledges_after(is_recovery=False) == after


def test_a_lac_that_came_with_an_add_raises_the_cursor() -> None:
    ledger = known(VD)

    ledger.added(4)
    ledger.synced(SyncedRun(5, 9))
    ledger.added(2)

    assert (ledger.lac, ledger.last_add_synced) == (4, 9)


def test_a_pd_ledger_reports_no_last_add_synced() -> None:
    ledger = known(PD)

    ledger.added(4)
    ledger.synced(SyncedRun(0, 9))

    assert (ledger.lac, ledger.last_add_synced) == (4, -1)


# ------------------------------------------------------------------ what survives a loss of power


def test_a_lower_lac_takes_nothing_back_when_the_higher_one_has_become_durable() -> None:
    ledger = known(PD)
    ledger.lac_recorded(9, ticket=3, synced_ticket=2)

    ledger.lac_recorded(5, ticket=5, synced_ticket=4)

    assert (ledger.recorded_lac, ledger.durable_lac(5)) == (9, 9)


def test_a_recorded_lac_is_durable_once_its_ticket_is_synced() -> None:
    """B23: a LAC that readers were told has to be there after a loss of power."""
    ledger = known(PD)

    ledger.lac_recorded(4, ticket=7, synced_ticket=6)

    assert (ledger.lac, ledger.recorded_lac) == (4, 4)
    assert [ledger.durable_lac(ticket) for ticket in (6, 7, 8)] == [-1, 4, 4]


def test_of_several_recorded_lacs_each_waits_for_its_own_ticket() -> None:
    ledger = known(PD)
    for ticket, lac in ((3, 1), (3, 2), (5, 6), (6, 4)):
        ledger.lac_recorded(lac, ticket, synced_ticket=2)

    assert [ledger.durable_lac(ticket) for ticket in (2, 3, 4, 5, 6)] == [-1, 2, 2, 6, 6]


def test_a_lac_that_is_only_seen_is_never_durable() -> None:
    ledger = known(PD)

    ledger.added(9)

    assert (ledger.lac, ledger.recorded_lac, ledger.durable_lac(99)) == (9, -1, -1)


def test_a_lac_from_disk_is_durable() -> None:
    ledger = BookieLedger(7, ledger_key=KEY, ledger_type=PD, lac=3)

    assert (ledger.recorded_lac, ledger.durable_lac(0)) == (3, 3)


def test_no_more_lacs_are_kept_than_are_on_their_way() -> None:
    ledger = known(PD)

    for ticket in range(1, 1_000):
        ledger.lac_recorded(ticket, ticket, synced_ticket=max(0, ticket - 3))

    assert ledger._earlier is not None
    assert len(ledger._earlier) == 2, "and the last one"
    assert ledger.durable_lac(999) == ledger.recorded_lac == 999
    assert ledger._earlier is None


def test_an_explicit_lac_is_taken_on_a_fenced_ledger_and_by_a_new_one() -> None:
    ledger = BookieLedger(7)
    assert ledger.admit_lac(KEY, PD)
    ledger.fence(KEY, PD)

    assert not ledger.admit_lac(KEY, PD)
    with pytest.raises(UnauthorizedError):
        ledger.admit_lac(OTHER_KEY, PD)
    with pytest.raises(UnsupportedLedgerError):
        ledger.admit_lac(KEY, VD)


class BookieLedgerMachine(RuleBasedStateMachine):
    """Random requests; the twin is a handful of plain fields and the rules in words."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = BookieLedger(7)
        self.key: bytes | None = None
        self.type: LedgerType | None = None
        self.fence = "none"
        self.lac = -1
        self.ticket = 1
        self.synced_ticket = 0
        self.recorded: list[tuple[int, int]] = []  # every (ticket, LAC) there ever was
        self.synced: set[int] = set()

    def _expected_error(self, key: bytes, ledger_type: LedgerType) -> type[ZbkError] | None:
        if self.key not in (None, key):
            return UnauthorizedError
        if self.type not in (None, ledger_type):
            return UnsupportedLedgerError
        return None

    def _try(self, expected: type[ZbkError] | None, call: Callable[[], object]) -> object:
        if expected is None:
            return call()
        with pytest.raises(expected):
            call()
        return None

    @rule(
        key=st.sampled_from([KEY, OTHER_KEY]),
        ledger_type=st.sampled_from(LedgerType),
        is_recovery=st.booleans(),
    )
    def add(self, key: bytes, ledger_type: LedgerType, is_recovery: bool) -> None:
        expected = self._expected_error(key, ledger_type)
        if expected is None and self.fence != "none" and not is_recovery:
            expected = LedgerFencedError
        needs_key = self._try(
            expected, lambda: self.ledger.admit_add(key, ledger_type, is_recovery=is_recovery)
        )
        if expected is None:
            assert needs_key == (self.key is None)
            self.key, self.type = key, ledger_type

    @rule(key=st.sampled_from([KEY, OTHER_KEY]), ledger_type=st.sampled_from(LedgerType))
    def accept_lac(self, key: bytes, ledger_type: LedgerType) -> None:
        expected = self._expected_error(key, ledger_type)
        needs_key = self._try(expected, lambda: self.ledger.admit_lac(key, ledger_type))
        if expected is None:
            assert needs_key == (self.key is None)
            self.key, self.type = key, ledger_type

    @rule(key=st.sampled_from([KEY, OTHER_KEY]), ledger_type=st.sampled_from(LedgerType))
    def accept_fence(self, key: bytes, ledger_type: LedgerType) -> None:
        expected = self._expected_error(key, ledger_type)
        needs = self._try(expected, lambda: self.ledger.fence(key, ledger_type))
        if expected is None:
            assert needs == (self.key is None, self.fence == "none")
            self.key, self.type = key, ledger_type
            if self.fence == "none":
                self.fence = "pending"

    @precondition(lambda self: self.fence != "none")
    @rule()
    def sync_fence(self) -> None:
        self.ledger.fence_synced()
        self.fence = "durable"

    @precondition(lambda self: self.key is not None)
    @rule(lac=st.integers(-1, 20))
    def see_lac(self, lac: int) -> None:
        self.ledger.added(lac)
        self.lac = max(self.lac, lac)

    @precondition(lambda self: self.key is not None)
    @rule(lac=st.integers(-1, 20))
    def record_lac(self, lac: int) -> None:
        self.ledger.lac_recorded(lac, self.ticket, self.synced_ticket)
        self.recorded.append((self.ticket, lac))
        self.lac = max(self.lac, lac)

    @rule()
    def begin_ticket(self) -> None:
        self.ticket += 1

    @rule(count=st.integers(1, 3))
    def sync_tickets(self, count: int) -> None:
        self.synced_ticket = min(self.ticket - 1, self.synced_ticket + count)

    @precondition(lambda self: self.key is not None)
    @rule(first=st.integers(0, 20), count=st.integers(1, 5))
    def sync(self, first: int, count: int) -> None:
        self.ledger.synced(SyncedRun(first, first + count - 1))
        self.synced |= set(range(first, first + count))

    @invariant()
    def agrees_with_twin(self) -> None:
        las = self.lac
        while las + 1 in self.synced:
            las += 1
        assert self.ledger.lac == self.lac
        assert self.ledger.recorded_lac == max((lac for _, lac in self.recorded), default=-1)
        durable = [lac for ticket, lac in self.recorded if ticket <= self.synced_ticket]
        assert self.ledger.durable_lac(self.synced_ticket) == max(durable, default=-1)
        assert self.ledger.last_add_synced == (
            las if self.type is not None and self.type.is_volatile else -1
        )
        assert self.ledger.is_fenced == (self.fence != "none")
        assert self.ledger.is_fence_durable == (self.fence == "durable")


TestBookieLedgerMachine = BookieLedgerMachine.TestCase
TestBookieLedgerMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
