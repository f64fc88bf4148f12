"""WatchLacs: one request of a connection waits for the LACs of many ledgers."""

import threading

import pytest

from tests.support.garbage_collector import Box
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, OTHER_KEY, World, add, batch, write_lac
from tests.support.storage_actor import read_lac as read_lac_of
from zbk.actors.messages import ForgetLedgers
from zbk.actors.serve.lac_watches import SESSION_IDLE_MS, WAIT_MS_MAX
from zbk.actors.serve.storage import WatchesDue
from zbk.actors.serve.storage_door import Quiesce
from zbk.actors.serve.sync_queue import (
    AppendGroup,
    Synced,
    SyncProgress,
)
from zbk.durability.limbo import LossReason
from zbk.errors import (
    BusyError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnknownLedgerStateError,
    UnsupportedLedgerError,
    ZbkError,
    from_wire,
)
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.wire.messages import RISEN_COUNT_MAX, LacAnswer, LacsRisen, LacWatch, WatchLacs

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
WATCH_COUNT_MAX = 50


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


def bookie(
    *, watch_count_max: int = WATCH_COUNT_MAX, progress: SyncProgress | None = None
) -> World:
    return World(
        SimulatedDisk(),
        "/b",
        segment_size=SEGMENT_HEADER_SIZE + 64 * 1024,
        watch_count_max=watch_count_max,
        progress=progress,
    )


def with_ledgers(*ledger_ids: int, world: World | None = None) -> World:
    world = world or bookie()
    for ledger_id in ledger_ids:
        world.say(*add(batch(0, [b"a", b"b"], ledger_id=ledger_id)))
    world.settle()
    world.answers.clear()
    return world


def watch(
    number: int,
    ledger_id: int = LEDGER_ID,
    known_lac: int = NO_ENTRY,
    *,
    key: bytes = KEY,
    kind: LedgerType = PD,
) -> LacWatch:
    return LacWatch(number, ledger_id, key, kind, known_lac)


def say(
    world: World,
    request_id: int,
    *begun: LacWatch,
    ended: tuple[int, ...] = (),
    session_id: int = 1,
    is_first: bool = False,
    wait_ms: int = 500,
) -> None:
    world.say(
        WatchLacs(
            request_id=request_id,
            session_id=session_id,
            is_first=is_first,
            begun=list(begun),
            ended=list(ended),
            wait_ms=wait_ms,
        )
    )


def told(world: World) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return what the answers said has risen, with the requests' ids; then forget them."""
    answers = [(a.request_id, list(a.risen)) for a in world.answers if isinstance(a, LacsRisen)]
    world.answers.clear()
    return answers


def refused(world: World) -> dict[int, type[ZbkError]]:
    """Return the errors that watches ended with."""
    return {
        one.number: type(from_wire(one.code, tuple(one.fields)))
        for answer in world.answers
        if isinstance(answer, LacsRisen)
        for one in answer.refused
    }


def rise(world: World, ledger_id: int, lac: int) -> None:
    world.say(write_lac(lac, ledger_id=ledger_id))
    world.settle()


def test_one_request_hears_of_all_that_rise_in_one_turn_and_the_others_go_on() -> None:
    world = with_ledgers(30, 31, 32)
    say(world, 5, watch(1, 30), watch(2, 31), watch(3, 32), is_first=True)
    assert told(world) == []

    world.say_together((write_lac(0, ledger_id=30),), (write_lac(1, ledger_id=31),))
    world.settle()

    assert told(world) == [(5, [(1, 0), (2, 1)])]
    rise(world, 32, 0)
    assert told(world) == [], "no request waits"
    say(world, 6)
    assert told(world) == [(6, [(3, 0)])]


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


def test_the_next_request_of_a_session_ends_the_wait_of_the_one_before() -> None:
    world = with_ledgers(30, 31)
    say(world, 5, watch(1, 30), is_first=True)

    say(world, 6, watch(2, 31), ended=(1,))

    assert told(world) == [(5, [])]
    rise(world, 30, 0)
    assert told(world) == [], "it was dropped"
    rise(world, 31, 0)
    assert told(world) == [(6, [(2, 0)])]


def test_a_repeated_request_is_answered_and_changes_nothing() -> None:
    world = with_ledgers(30)
    say(world, 1, is_first=True)
    say(world, 2, watch(4, 30))
    rise(world, 30, 1)
    assert told(world) == [(1, []), (2, [(4, 1)])]

    say(world, 2, watch(4, 30))  # its answer would tell 4 once more, and nobody would hear it
    say(world, 1, is_first=True)
    assert told(world) == [(2, []), (1, [])]

    say(world, 3, watch(5, 30, 1))
    rise(world, 30, 2)
    assert told(world) == [(3, [(5, 2)])]


def test_a_request_is_answered_at_its_deadline_and_no_later_than_the_limit() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)
    world.now_ms += 499
    world.tell(WatchesDue())
    assert told(world) == []
    world.now_ms += 1
    world.tell(WatchesDue())
    assert told(world) == [(5, [])]

    say(world, 6, wait_ms=2**62)
    world.now_ms += WAIT_MS_MAX
    world.tell(WatchesDue())

    assert told(world) == [(6, [])]
    rise(world, 30, 0)
    say(world, 7)
    assert told(world) == [(7, [(1, 0)])]


def test_a_session_without_a_request_is_forgotten_and_its_client_hears_of_that() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)
    rise(world, 30, 0)
    world.now_ms += SESSION_IDLE_MS
    world.tell(WatchesDue())
    assert not world.ticker.callbacks, "nothing is left to look at"
    world.answers.clear()

    say(world, 6, watch(2, 30))

    (answer,) = world.answers
    assert isinstance(answer, LacsRisen)
    assert answer.is_lost
    say(world, 7, watch(2, 30), is_first=True, session_id=2)
    assert told(world)[-1] == (7, [(2, 0)])


def test_a_new_session_of_a_connection_ends_the_one_before() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)

    say(world, 6, watch(2, 30), is_first=True, session_id=2)
    say(world, 7, watch(3, 30), session_id=1)

    answers = {a.request_id: a for a in world.answers if isinstance(a, LacsRisen)}
    assert not answers[5].is_lost
    assert answers[7].is_lost
    world.answers.clear()
    rise(world, 30, 0)
    assert told(world) == [(6, [(2, 0)])]


def test_connections_have_sessions_of_their_own() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)
    world.peer = b"other"
    say(world, 6, watch(1, 30), is_first=True)

    rise(world, 30, 0)

    assert sorted(told(world)) == [(5, [(1, 0)]), (6, [(1, 0)])]


def test_over_the_limit_a_watch_is_refused_and_the_others_go_on() -> None:
    world = with_ledgers(30)
    watches = [watch(number, 30) for number in range(WATCH_COUNT_MAX + 2)]

    say(world, 5, *watches, is_first=True)

    assert refused(world) == {WATCH_COUNT_MAX: BusyError, WATCH_COUNT_MAX + 1: BusyError}
    world.answers.clear()
    say(world, 6, ended=(0,))
    rise(world, 30, 0)
    assert [number for number, _ in told(world)[0][1]] == list(range(1, WATCH_COUNT_MAX))


def test_what_does_not_fit_into_one_answer_comes_with_the_next() -> None:
    count = RISEN_COUNT_MAX + 3
    world = with_ledgers(30, world=bookie(watch_count_max=count))
    say(world, 5, is_first=True)
    for first in range(0, count, 500):
        some = [watch(number, 30) for number in range(first, min(first + 500, count))]
        say(world, 6 + first, *some)
    world.answers.clear()

    rise(world, 30, 0)
    say(world, 6 + count)

    assert [len(risen) for _, risen in told(world)] == [RISEN_COUNT_MAX, 3]


def test_a_bookie_that_stops_answers_the_sessions() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)

    world.tell(Quiesce(threading.Event()))

    assert told(world) == [(5, [])]


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
