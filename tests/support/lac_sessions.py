"""Sessions at a bookie that watch the LACs of many ledgers."""

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch, write_lac
from zbk.actors.serve.sync_queue import SyncProgress
from zbk.errors import ZbkError, from_wire
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.wire.messages import LacsRisen, LacWatch, WatchLacs

PD = LedgerType.PD_JOURNAL
WATCH_COUNT_MAX = 50


def bookie(
    *, watch_count_max: int = WATCH_COUNT_MAX, progress: SyncProgress | None = None
) -> World:
    """Return a bookie with room for so many watches."""
    return World(
        SimulatedDisk(),
        "/b",
        segment_size=SEGMENT_HEADER_SIZE + 64 * 1024,
        watch_count_max=watch_count_max,
        progress=progress,
    )


def with_ledgers(*ledger_ids: int, world: World | None = None) -> World:
    """Return a bookie with two entries in each of some ledgers, and no answers."""
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
    """Return a watch that waits for more than a LAC."""
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
    """Hand in the next request of a session."""
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
    """Raise the LAC of a ledger, and sync it."""
    world.say(write_lac(lac, ledger_id=ledger_id))
    world.settle()
