"""Rights at the storage actor: who is served, who is refused, and who waits for the metadata."""

import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch, read, read_lac, write_lac
from zbk.actors.serve.access_gate import GrantsChanged, SetKeys, SetNamespaces
from zbk.actors.serve.storage import WatchesDue
from zbk.durability.new_ledgers import WAITING_COUNT_MAX, KnownLedger
from zbk.errors import (
    AccessDeniedError,
    BusyError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    RoleRequiredError,
    ZbkError,
    from_wire,
)
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.access import LedgerAccess, Right
from zbk.security.access_table import AccessTable
from zbk.security.namespaces import Namespace, NamespaceTable
from zbk.security.principals import KeyTable, Principal
from zbk.wire.messages import (
    AddAnswer,
    CollectGarbage,
    GetBookieInfo,
    GetLedgerInfo,
    LacsRisen,
    LacWatch,
    LedgerInfo,
    Pong,
    ReadAnswer,
    Refused,
    Scrub,
    Sync,
    WatchLacs,
    WriteLac,
)

ALICE = Principal(name="alice", keys=("a" * 40,))
BOB = Principal(name="bob", keys=("b" * 40,))
BOOKIE = Principal(name="bookie", keys=("c" * 40,), roles=("bookie",))
OPERATOR = Principal(name="olivia", keys=("d" * 40,), roles=("operator",))
PRINCIPALS = (ALICE, BOB, BOOKIE, OPERATOR)
[A], [B], [C], [D] = (one.keys for one in PRINCIPALS)
PD = LedgerType.PD_JOURNAL
OTHER_ID = LEDGER_ID + 1
HERS = KnownLedger(KEY, PD, LedgerAccess(owner="alice"))
HIS = KnownLedger(KEY, PD, LedgerAccess(owner="bob"))
SHARED = KnownLedger(KEY, PD, LedgerAccess(owner="alice", grants={"bob": (Right.READ,)}))


@pytest.fixture
def world() -> World:
    """Return a bookie that holds an entry of ledger 7, which is alice's; 8 is bob's."""
    table = AccessTable(KeyTable(PRINCIPALS), NamespaceTable())
    world = World(SimulatedDisk(), "/b", access=table)
    world.lookups.findings = {LEDGER_ID: HERS, OTHER_ID: HIS}
    world.key = A
    world.say(*add(batch(0, [b"hers"])))
    world.settle()
    assert isinstance(world.answers.pop(), AddAnswer)
    return world


def error_of(answer: object) -> ZbkError:
    assert isinstance(answer, Refused), answer
    return from_wire(answer.code, tuple(answer.fields))


def watch(world: World, *ledger_ids: int, request_id: int = 1) -> None:
    begun = [LacWatch(one, one, KEY, PD, -1) for one in ledger_ids]
    is_first = request_id == 1
    world.say(
        WatchLacs(
            request_id=request_id, session_id=1, is_first=is_first, begun=begun, wait_ms=9_000
        )
    )


def watched(world: World) -> list[LacsRisen]:
    return [one for one in world.answers if isinstance(one, LacsRisen)]


# ------------------------------------------------------------------ requests


def test_another_principal_is_refused_by_name_and_the_ledger_stays_as_it_was(world: World) -> None:
    group_count = len(world.groups)
    world.key = B
    world.say_together(
        add(batch(1, [b"his"])),
        add(batch(1, [b"his"]), is_recovery=True),
        (read(0, 0),),
        (read(0, 0, is_fencing=True),),
        (read_lac(),),
        (read_lac(is_fencing=True),),
        (read_lac(wait_ms=9_000),),
        (WriteLac(request_id=4, ledger_id=LEDGER_ID, ledger_key=KEY, ledger_type=PD, lac=3),),
        (GetLedgerInfo(request_id=8, ledger_id=LEDGER_ID),),
    )
    world.settle()

    rights = [error_of(one).fields() for one in world.answers]
    assert rights == [
        (LEDGER_ID, "bob", right)
        for right in [
            "append",
            "recover",
            "read",
            "recover",
            "read",
            "recover",
            "read",
            "append",
            "read",
        ]
    ]
    assert len(world.groups) == group_count
    world.key = A
    world.say(*add(batch(1, [b"hers"])))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)  # nothing was fenced


def test_a_refused_part_beside_good_parts_fails_alone(world: World) -> None:
    world.key = B
    world.say_together(
        add(batch(0, [b"his"], ledger_id=OTHER_ID), request_id=1),
        add(batch(1, [b"no"]), request_id=2),
        add(batch(1, [b"his"], ledger_id=OTHER_ID), request_id=3),
    )
    world.settle()

    by_id = {one.request_id: one for one in world.answers}
    assert isinstance(by_id[1], AddAnswer)
    assert isinstance(error_of(by_id[2]), AccessDeniedError)
    assert isinstance(by_id[3], AddAnswer)


def test_a_ledger_is_looked_up_once(world: World) -> None:
    world.lookups.is_answering = False
    for _ in range(3):
        world.say(read(0, 0))
    world.settle()

    assert world.lookups.asked == []
    assert len(world.answers) == 3


def test_requests_wait_for_the_look_up_in_order(world: World) -> None:
    world.tell(GrantsChanged(None))
    world.lookups.is_answering = False
    world.say_together(add(batch(1, [b"one"]), request_id=11), (read(0, 1),))
    world.say(*add(batch(2, [b"two"]), request_id=12))
    assert world.answers == []
    assert [[*one] for one in world.lookups.asked] == [[LEDGER_ID]]

    world.looked_up()
    world.settle()

    assert [type(one) for one in world.answers] == [AddAnswer, AddAnswer, ReadAnswer]
    assert [one.request_id for one in world.answers[:2]] == [11, 12]


def test_a_role_needs_no_look_up(world: World) -> None:
    world.tell(GrantsChanged(None))
    world.lookups.is_answering = False
    world.key = C
    world.say(read(0, 0))
    world.settle()

    assert isinstance(world.answers[-1], ReadAnswer)
    assert world.lookups.asked == []


@pytest.mark.parametrize(
    "error", [NoSuchLedgerError(LEDGER_ID), MetadataUnavailableError("zk://x", "silent")], ids=str
)
def test_a_ledger_whose_owner_cannot_be_known_is_refused(world: World, error: ZbkError) -> None:
    world.tell(GrantsChanged(None))
    world.lookups.findings[LEDGER_ID] = error
    world.say_together((read(0, 0),), add(batch(1, [b"x"])))

    assert [type(error_of(one)) for one in world.answers] == [type(error)] * 2
    world.lookups.findings[LEDGER_ID] = HERS
    world.say(read(0, 0))
    world.settle()
    assert isinstance(world.answers[-1], ReadAnswer)


def test_a_question_about_a_ledger_that_is_not_held_costs_no_look_up(world: World) -> None:
    world.lookups.is_answering = False
    world.key = B
    info = GetLedgerInfo(request_id=8, ledger_id=99)
    sync = Sync(request_id=3, ledger_id=99, ledger_key=KEY, lac=5)
    world.say_together((read(0, 0, ledger_id=99),), (read_lac(ledger_id=99),), (sync,), (info,))

    assert [type(error_of(one)) for one in world.answers[:3]] == [NoSuchLedgerError] * 3
    assert isinstance(world.answers[3], LedgerInfo)
    assert not world.answers[3].is_known
    assert world.lookups.asked == []


# ------------------------------------------------------------------ changes


def test_a_grant_counts_from_the_news_on_and_so_does_its_end(world: World) -> None:
    world.key = B
    world.say(read(0, 0))
    assert isinstance(error_of(world.answers[-1]), AccessDeniedError)

    world.lookups.findings[LEDGER_ID] = SHARED
    world.tell(GrantsChanged((LEDGER_ID,)))
    world.say(read(0, 0))
    world.settle()
    assert isinstance(world.answers[-1], ReadAnswer)

    world.lookups.findings[LEDGER_ID] = HERS
    world.tell(GrantsChanged((LEDGER_ID,)))
    world.say(read(0, 0))
    assert isinstance(error_of(world.answers[-1]), AccessDeniedError)


def test_an_answer_that_was_read_before_a_change_is_asked_for_again(world: World) -> None:
    world.tell(GrantsChanged(None))
    world.lookups.is_answering = False
    world.lookups.findings[LEDGER_ID] = SHARED
    world.key = B
    world.say(read(0, 0))
    stale = world.lookups.answer({})
    assert stale is not None

    world.tell(GrantsChanged((LEDGER_ID,)))  # bob has the right no longer
    world.lookups.findings[LEDGER_ID] = HERS
    world.tell(stale)
    assert world.answers == []
    world.looked_up()

    assert isinstance(error_of(world.answers[-1]), AccessDeniedError)


def test_a_removed_principal_and_a_removed_grant_of_a_namespace_count(world: World) -> None:
    in_orders = LedgerAccess(owner="alice", namespace="orders")
    world.lookups.findings[LEDGER_ID] = KnownLedger(KEY, PD, in_orders)
    world.tell(GrantsChanged(None))
    orders = Namespace(path="orders", grants={"bob": (Right.READ,)})
    outcomes: list[object] = []
    for change in (
        SetNamespaces(NamespaceTable([orders])),
        SetKeys(KeyTable((ALICE,))),
        SetKeys(KeyTable(PRINCIPALS)),
        SetNamespaces(NamespaceTable()),
    ):
        world.tell(change)
        world.key = B
        world.say(read(0, 0))
        world.settle()
        outcomes.append(isinstance(world.answers[-1], ReadAnswer))

    assert outcomes == [True, False, True, False]


# ------------------------------------------------------------------ the bookie itself


@pytest.mark.parametrize(
    ("request_", "allowed"),
    [
        (CollectGarbage(request_id=1), {D}),
        (CollectGarbage(request_id=1, is_round_wanted=False), {C, D}),
        (CollectGarbage(request_id=1, is_round_wanted=False, suspend=["minor"]), {D}),
        (Scrub(request_id=1), {D}),
        (Scrub(request_id=1, is_pass_wanted=False), {C, D}),
        (GetBookieInfo(request_id=1), {A, B, C, D}),
    ],
    ids=["gc", "look at gc", "suspend", "scrub", "look at scrub", "info"],
)
def test_roles_operate_a_bookie(
    world: World, request_: CollectGarbage | Scrub | GetBookieInfo, allowed: set[str]
) -> None:
    for key in (A, B, C, D):
        world.key = key
        world.say(request_)
        if key in allowed:
            assert isinstance(world.answers[-1], Pong)
        else:
            assert isinstance(error_of(world.answers[-1]), RoleRequiredError)


# ------------------------------------------------------------------ watches


def test_each_watch_is_decided_by_itself(world: World) -> None:
    world.say_together(
        (WriteLac(request_id=4, ledger_id=LEDGER_ID, ledger_key=KEY, ledger_type=PD, lac=0),)
    )
    world.settle()
    world.key = B

    watch(world, LEDGER_ID, OTHER_ID)

    [answer] = watched(world)
    assert answer.risen == []
    assert [one.number for one in answer.refused] == [LEDGER_ID]
    assert answer.refused[0].code == AccessDeniedError.code


def test_a_watch_of_an_unknown_ledger_waits_for_the_look_up_and_keeps_its_session(
    world: World,
) -> None:
    world.tell(GrantsChanged(None))
    world.lookups.is_answering = False
    watch(world, LEDGER_ID)
    watch(world, OTHER_ID, request_id=2)  # the session goes on meanwhile
    world.say_together(
        (WriteLac(request_id=4, ledger_id=LEDGER_ID, ledger_key=KEY, ledger_type=PD, lac=0),)
    )
    assert [one.risen for one in watched(world)] == [[]]  # of the first request of the session

    world.looked_up()
    world.settle()

    last = watched(world)[-1]
    told = [*last.risen, *[(one.number, one.code) for one in last.refused]]
    assert (OTHER_ID, AccessDeniedError.code) in told


def test_a_watch_ends_when_the_right_is_taken_away(world: World) -> None:
    world.lookups.findings[LEDGER_ID] = SHARED
    world.tell(GrantsChanged(None))
    world.key = B
    watch(world, LEDGER_ID)
    assert watched(world) == []

    world.lookups.findings[LEDGER_ID] = HERS
    world.tell(GrantsChanged((LEDGER_ID,)))
    world.looked_up()

    [answer] = watched(world)
    assert [(one.number, one.code) for one in answer.refused] == [
        (LEDGER_ID, AccessDeniedError.code)
    ]


def test_a_poll_ends_when_its_principal_is_removed(world: World) -> None:
    world.say(read_lac(wait_ms=9_000))
    assert world.answers == []

    world.tell(SetKeys(KeyTable((BOB,))))

    assert isinstance(error_of(world.answers[-1]), AccessDeniedError)


def test_a_poll_whose_ledger_is_being_looked_up_tells_nothing_at_its_end(world: World) -> None:
    world.say(read_lac(wait_ms=1_000))
    world.lookups.is_answering = False
    world.tell(GrantsChanged(None))
    world.now_ms += 2_000
    world.tell(WatchesDue())

    assert isinstance(error_of(world.answers[-1]), BusyError)


# ------------------------------------------------------------------ switched off


def test_without_required_keys_there_is_no_gate() -> None:
    world = World(SimulatedDisk(), "/b")

    assert world.actor._access is None
    world.say(*add(batch(0, [b"anyone's"])))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)


def test_a_guest_who_asks_for_what_there_is_not_leaves_room_for_others(world: World) -> None:
    world.lookups.is_answering = False
    world.key = B
    for first in range(1_000, 1_000 + WAITING_COUNT_MAX, 1_024):
        world.say_together(*[(write_lac(0, ledger_id=first + one),) for one in range(1_024)])
    assert {type(error_of(one)) for one in world.answers} == {BusyError}
    assert len(world.answers) == WAITING_COUNT_MAX // 2
    world.answers.clear()

    world.key = A
    world.say(*add(batch(0, [b"hers"], ledger_id=9)))

    assert world.answers == [], "it waits for the look-up"
