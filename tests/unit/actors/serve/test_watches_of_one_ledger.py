"""Several watches of one ledger whose access is looked up: some end before they are looked at."""

import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, OTHER_KEY, World, add, batch, write_lac
from zbk.actors.serve.access_gate import GrantsChanged
from zbk.durability.new_ledgers import KnownLedger
from zbk.errors import AccessDeniedError, UnauthorizedError, ZbkError, from_wire
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.access import LedgerAccess, Right
from zbk.security.access_table import AccessTable
from zbk.security.namespaces import NamespaceTable
from zbk.security.principals import KeyTable, Principal
from zbk.wire.messages import LacsRisen, LacWatch, WatchLacs

ALICE = Principal(name="alice", keys=("a" * 40,))
BOB = Principal(name="bob", keys=("b" * 40,))
PD = LedgerType.PD_JOURNAL
HERS = KnownLedger(KEY, PD, LedgerAccess(owner="alice"))
SHARED = KnownLedger(KEY, PD, LedgerAccess(owner="alice", grants={"bob": (Right.READ,)}))


@pytest.fixture
def world() -> World:
    """Return a bookie with an entry of alice's ledger, which bob may read; its LAC is unknown."""
    table = AccessTable(KeyTable((ALICE, BOB)), NamespaceTable())
    world = World(SimulatedDisk(), "/b", access=table)
    world.lookups.findings = {LEDGER_ID: SHARED}
    world.key = ALICE.keys[0]
    world.say(*add(batch(0, [b"x"])))
    world.settle()
    world.answers.clear()
    return world


def watch(world: World, who: Principal, *ledger_keys: bytes) -> None:
    world.peer, world.key = who.name.encode(), who.keys[0]
    begun = [LacWatch(number, LEDGER_ID, one, PD, -1) for number, one in enumerate(ledger_keys)]
    world.say(WatchLacs(request_id=1, session_id=1, is_first=True, begun=begun, wait_ms=9_000))


def outcomes(world: World) -> list[object]:
    """Return the LACs, and the errors, that the sessions heard of."""
    told: list[object] = []
    for answer in world.answers:
        if isinstance(answer, LacsRisen):
            told += [lac for _number, lac in answer.risen]
            told += [error_type(one.code, one.fields) for one in answer.refused]
    return told


def error_type(code: int, fields: object) -> type[ZbkError]:
    return type(from_wire(code, tuple(fields)))  # type: ignore[arg-type]


def test_a_grant_is_revoked_while_two_readers_wait_and_the_lac_rises(world: World) -> None:
    watch(world, ALICE, KEY)
    watch(world, BOB, KEY)
    world.key = ALICE.keys[0]
    world.say(write_lac(0))  # on its way to the disk
    world.lookups.is_answering = False
    world.lookups.findings[LEDGER_ID] = HERS
    world.tell(GrantsChanged((LEDGER_ID,)))
    world.settle()

    world.looked_up()
    world.settle()

    assert outcomes(world) == [0, AccessDeniedError]


def test_a_stranger_watches_after_a_reader_for_whom_there_is_news(world: World) -> None:
    world.say(write_lac(0))
    world.settle()
    world.tell(GrantsChanged(None))
    world.lookups.findings[LEDGER_ID] = HERS
    world.lookups.is_answering = False
    watch(world, ALICE, KEY)
    watch(world, BOB, KEY)

    world.looked_up()

    assert outcomes(world) == [0, AccessDeniedError]


def test_one_session_watches_with_a_right_and_with_a_wrong_key(world: World) -> None:
    world.say(write_lac(0))
    world.settle()
    world.tell(GrantsChanged((LEDGER_ID,)))
    world.lookups.is_answering = False
    watch(world, ALICE, KEY, OTHER_KEY)

    world.looked_up()

    assert outcomes(world) == [0, UnauthorizedError]
