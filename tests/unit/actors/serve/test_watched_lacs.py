"""A watch ends with the LAC that it waits for, once that is durable, or with a refusal."""

import pytest

from tests.support.garbage_collector import Box
from tests.support.lac_sessions import bookie, refused, rise, say, told, watch, with_ledgers
from tests.support.storage_actor import LEDGER_ID, OTHER_KEY, add, batch, write_lac
from tests.support.storage_actor import read_lac as read_lac_of
from zbk.actors.messages import ForgetLedgers
from zbk.actors.serve.sync_queue import AppendGroup, Synced, SyncProgress
from zbk.durability.limbo import LossReason
from zbk.errors import (
    NoSuchLedgerError,
    UnauthorizedError,
    UnknownLedgerStateError,
    UnsupportedLedgerError,
)
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.wire.messages import LacAnswer, LacsRisen

VD = LedgerType.VD_JOURNAL


class RacingProgress(SyncProgress):
    """A sync that ends right after the next look at how far syncs have come."""

    next_ticket: int | None = None
    _ticket = 0

    @property
    def synced_ticket(self) -> int:
        now, self._ticket = self._ticket, self.next_ticket or self._ticket
        return now

    @synced_ticket.setter
    def synced_ticket(self, value: int) -> None:
        self._ticket = value


def test_a_lac_that_is_told_late_is_the_one_that_there_is_by_then() -> None:
    """Seed 1742, I8: another reader has been told it already."""
    world = with_ledgers(30, 31)
    say(world, 5, watch(1, 30), watch(2, 31), is_first=True)
    rise(world, 30, 0)  # the request is answered
    world.say(read_lac_of(ledger_id=31, is_fencing=True, request_id=9))
    rise(world, 31, 1)
    world.say(read_lac_of(ledger_id=31, request_id=10))
    assert [a.lac for a in world.answers if isinstance(a, LacAnswer)][-1] == 1
    world.answers.clear()

    say(world, 6)

    assert told(world) == [(6, [(2, 1)])]


def test_a_watch_ends_once() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)
    rise(world, 30, 0)
    told(world)
    say(world, 6)

    rise(world, 30, 1)

    assert told(world) == []
    say(world, 7, watch(2, 30, 0))
    assert told(world) == [(6, []), (7, [(2, 1)])], "what is known to be higher is told at once"


@pytest.mark.parametrize("kind", LedgerType)
def test_a_lac_is_told_once_it_is_durable(kind: LedgerType) -> None:
    world = bookie()
    world.say(*add(batch(0, [b"a", b"b"]), kind=kind))
    world.settle()
    say(world, 5, watch(1, kind=kind), is_first=True)
    world.say(*add(batch(2, [b"c"], lac=1), lac=1, kind=kind))
    world.written()
    assert told(world) == []

    world.synced()

    assert told(world) == [(5, [(1, 1)])]


def test_a_watch_that_begins_between_an_add_and_its_sync_hears_of_it() -> None:
    world = with_ledgers(LEDGER_ID)
    world.say(*add(batch(2, [b"c"], lac=1), lac=1))
    world.written()
    say(world, 5, watch(1), is_first=True)
    assert told(world) == []

    world.synced()

    assert told(world) == [(5, [(1, 1)])]


def test_a_sync_that_ends_while_a_watch_begins_is_not_missed() -> None:
    world = with_ledgers(LEDGER_ID)
    world.say(*add(batch(2, [b"c"], lac=1), lac=1))
    world.written()

    def end_sync() -> None:  # the clock is read between the two looks
        world.progress.synced_ticket = world.groups[-1].ticket

    world.on_clock = end_sync

    say(world, 5, watch(1), is_first=True)

    assert told(world) == [(5, [(1, 1)])]


def test_a_sync_that_ends_while_the_one_before_is_heard_of_is_not_missed() -> None:
    """No news come of it: nothing was watched when it looked."""
    progress = RacingProgress()
    world = with_ledgers(LEDGER_ID, world=bookie(progress=progress))
    say(world, 5, watch(1, known_lac=1), is_first=True)
    world.say(*add(batch(2, [b"c"], lac=1), lac=1))
    first_ticket = world.groups[-1].ticket
    world.say(*add(batch(3, [b"d"], lac=2), lac=2))
    world.answers.clear()
    progress.synced_ticket = first_ticket
    progress.next_ticket = world.groups[-1].ticket

    world.tell(Synced(first_ticket))

    assert told(world) == [(5, [(1, 2)])]


def test_a_ledger_that_is_not_here_yet_is_watched_too() -> None:
    world = bookie()
    say(world, 5, watch(1, 30), is_first=True)
    assert told(world) == []

    world.say(*add(batch(0, [b"a"], ledger_id=30)))
    world.settle()
    assert told(world) == [], "no LAC came"
    rise(world, 30, 0)

    assert told(world) == [(5, [(1, 0)])]


def test_a_key_or_type_that_turns_out_to_be_wrong_is_refused() -> None:
    world = with_ledgers(30)
    say(
        world, 5, watch(1, 30, key=OTHER_KEY), watch(2, 30, kind=VD), watch(3, 31, key=OTHER_KEY),
        is_first=True,
    )  # fmt: skip
    assert refused(world) == {1: UnauthorizedError, 2: UnsupportedLedgerError}
    say(world, 6)
    world.answers.clear()

    world.say(*add(batch(0, [b"a"], ledger_id=31)))
    rise(world, 31, 0)

    assert refused(world) == {3: UnauthorizedError}
    assert told(world)[0][1] == [], "no LAC was told"


def test_a_fence_ends_the_watches_of_its_ledger() -> None:
    world = with_ledgers(30, 31)
    say(world, 5, watch(1, 30), watch(2, 31), is_first=True)

    world.say(read_lac_of(ledger_id=30, is_fencing=True, request_id=9))

    assert told(world) == [(5, [(1, NO_ENTRY)])]
    say(world, 6, watch(3, 30))
    assert told(world) == [(6, [(3, NO_ENTRY)])], "and no watch begins after it"


def test_a_deleted_ledger_ends_its_watches_also_one_that_was_never_here() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), watch(2, 31), is_first=True)

    world.tell(ForgetLedgers([30, 31], Box([]), 0))

    assert refused(world) == {1: NoSuchLedgerError, 2: NoSuchLedgerError}
    world.answers.clear()
    say(world, 6, watch(3, 30))
    assert refused(world) == {3: NoSuchLedgerError}


def test_a_bookie_that_may_have_lost_the_ledger_says_neither_yes_nor_no() -> None:
    world = bookie()
    world.storage.limbo.note_loss(LossReason.WIPED, LEDGER_ID + 1)

    say(world, 5, watch(1), is_first=True)

    assert refused(world) == {1: UnknownLedgerStateError}


def test_an_idle_watch_costs_the_syncs_of_other_ledgers_nothing() -> None:
    world = with_ledgers(30, 31)
    say(world, 5, watch(1, 30), is_first=True)

    rise(world, 31, 0)
    assert not world.progress.is_watched
    world.say(write_lac(0, ledger_id=30))
    assert world.progress.is_watched
    world.settle()

    assert not world.progress.is_watched


def test_a_lac_is_told_before_the_journal_gets_what_makes_a_higher_one_durable() -> None:
    """Seed 1742, I8: the journal may sync and answer at once, in the same turn."""
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)
    handed: list[bool] = []

    class Groups(list[AppendGroup]):
        def append(self, group: AppendGroup) -> None:
            handed.append(any(isinstance(answer, LacsRisen) for answer in world.answers))
            super().append(group)

    world.groups = Groups(world.groups)

    world.say_together(
        (write_lac(1, ledger_id=30),), (read_lac_of(ledger_id=30, is_fencing=True, request_id=9),)
    )

    assert handed == [True]
