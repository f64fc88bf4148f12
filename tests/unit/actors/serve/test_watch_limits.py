"""What watches cost a bookie, whatever a client asks for."""

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, OTHER_KEY, World, add, batch, read_lac
from zbk.actors.serve.lac_watch import Session
from zbk.actors.serve.lac_watches import (
    SESSION_IDLE_MS,
    SESSION_WATCH_COUNT_MAX,
    WATCH_COUNT_MAX,
    LacWatches,
)
from zbk.actors.serve.storage import WatchesDue
from zbk.errors import BusyError, from_wire
from zbk.protocol.entry.words import LedgerType
from zbk.wire.messages import WATCH_COUNT_MAX as BEGUN_COUNT_MAX
from zbk.wire.messages import (
    WATCH_REFUSED_COUNT_MAX,
    LacAnswer,
    LacsRisen,
    LacWatch,
    WatchLacs,
)

PD = LedgerType.PD_JOURNAL


def bookie(*, watch_count_max: int = WATCH_COUNT_MAX) -> World:
    world = World(SimulatedDisk(), "/b", watch_count_max=watch_count_max)
    world.say(*add(batch(0, [b"x"])))
    world.settle()
    world.answers.clear()
    return world


def ask(
    world: World,
    request_id: int,
    count: int = BEGUN_COUNT_MAX,
    *,
    key: bytes = OTHER_KEY,
    is_first: bool = False,
) -> LacsRisen | None:
    """Begin watches, of which those with another key are refused; return the last answer."""
    first = request_id * BEGUN_COUNT_MAX
    begun = [LacWatch(first + number, LEDGER_ID, key, PD, -1) for number in range(count)]
    request = WatchLacs(
        request_id=request_id, session_id=1, is_first=is_first, begun=begun, wait_ms=9_000
    )
    world.say(request)
    answers = [one for one in world.answers if isinstance(one, LacsRisen)]
    world.answers.clear()
    return answers[-1] if answers else None


def watches_of(world: World) -> LacWatches:
    return world.actor._watches._watches


def session_of(world: World) -> Session | None:
    return watches_of(world)._sessions.get(world.peer)


def test_a_session_that_is_refused_faster_than_it_is_told_is_lost() -> None:
    world = bookie()
    answer = ask(world, 1, is_first=True)
    count = 1
    while answer is None or not answer.is_lost:
        count += 1
        session = session_of(world)
        assert session is not None
        assert len(session.refused) <= SESSION_WATCH_COUNT_MAX
        assert all(error.__traceback__ is None for _number, error in session.refused)
        answer = ask(world, count)

    assert count > SESSION_WATCH_COUNT_MAX // BEGUN_COUNT_MAX, "not before the limit"
    assert session_of(world) is None
    assert watches_of(world)._untold_count == 0
    answer = ask(world, count + 1, is_first=True)  # the client begins another one
    assert answer is not None
    assert len(answer.refused) == WATCH_REFUSED_COUNT_MAX


def test_what_sessions_have_not_heard_of_has_a_limit_in_all() -> None:
    world = bookie(watch_count_max=1_000)
    for number in range(3):
        world.peer = b"greedy %d" % number
        ask(world, 1, is_first=True)
        ask(world, 2)
    assert watches_of(world)._untold_count <= 1_000 + BEGUN_COUNT_MAX

    world.peer = b"modest"
    answer = ask(world, 1, WATCH_REFUSED_COUNT_MAX, is_first=True)

    assert answer is not None
    assert (len(answer.refused), answer.is_lost) == (WATCH_REFUSED_COUNT_MAX, False)


def test_a_session_that_is_forgotten_takes_its_refusals_along() -> None:
    world = bookie()
    ask(world, 1, is_first=True)
    assert watches_of(world)._untold_count == BEGUN_COUNT_MAX - WATCH_REFUSED_COUNT_MAX

    world.now_ms += SESSION_IDLE_MS + 1
    world.tell(WatchesDue())

    assert session_of(world) is None
    assert watches_of(world)._untold_count == 0


def test_a_key_has_one_half_of_the_watches() -> None:
    world = bookie(watch_count_max=10)
    world.key, world.peer = "a" * 40, b"alice"
    answer = ask(world, 1, 7, key=KEY, is_first=True)

    assert answer is not None
    assert [type(from_wire(one.code, tuple(one.fields))) for one in answer.refused] == [
        BusyError
    ] * 2
    world.say(read_lac(wait_ms=9_000))
    assert [type(one) for one in world.answers] == [LacAnswer], "a poll is answered at once"
    world.answers.clear()
    world.key, world.peer = "b" * 40, b"bob"
    assert ask(world, 1, 5, key=KEY, is_first=True) is None
    world.say(WatchLacs(request_id=2, session_id=1, ended=list(range(500, 505)), wait_ms=9_000))
    assert len(watches_of(world)) == 5
    assert watches_of(world)._counts == {"a" * 40: 5}
