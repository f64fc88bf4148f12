"""Ledgers that are new at a bookie: nobody claims one that the metadata store does not have."""

import threading

import pytest

from tests.support.garbage_collector import Box
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, OTHER_KEY, World, add, batch, read, read_lac
from zbk.actors.messages import Answered, ForgetLedgers
from zbk.actors.serve.storage_door import Quiesce
from zbk.durability.new_ledgers import WAITING_COUNT_MAX, KnownLedger
from zbk.errors import (
    BusyError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnsupportedLedgerError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.wire.messages import (
    AddAnswer,
    GetLedgerInfo,
    LacAnswer,
    LedgerInfo,
    Message,
    ReadAnswer,
    Refused,
    Request,
    Sync,
    SyncAnswer,
    WriteLac,
)

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
HELD_ID = LEDGER_ID + 1
UNAVAILABLE = MetadataUnavailableError("zk://nowhere", "did not answer")


def lac(ledger_id: int = LEDGER_ID) -> WriteLac:
    return WriteLac(request_id=4, ledger_id=ledger_id, ledger_key=KEY, ledger_type=PD, lac=3)


def info(ledger_id: int = LEDGER_ID) -> GetLedgerInfo:
    return GetLedgerInfo(request_id=8, ledger_id=ledger_id)


CLAIMS = [
    pytest.param(add(batch(0, [b"claimed"])), id="add"),
    pytest.param(add(batch(0, [b"claimed"]), is_recovery=True), id="recovery add"),
    pytest.param((lac(),), id="explicit LAC"),
    pytest.param((read_lac(is_fencing=True),), id="fence"),
    pytest.param((read(0, 0, is_fencing=True),), id="fencing read"),
]


@pytest.fixture
def world() -> World:
    """Return a bookie that holds one ledger, and whose questions wait for ``looked_up``."""
    world = World(SimulatedDisk(), "/b")
    world.say(*add(batch(0, [b"held"], ledger_id=HELD_ID)))
    world.settle()
    world.answers.clear()
    world.lookups.is_answering = False
    return world


def names(answers: list[Message]) -> list[int]:
    return [answer.request_id for answer in answers]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_ledger_that_does_not_exist_is_claimed_by_nothing(
    world: World, claim: tuple[Request, *tuple[bytes, ...]]
) -> None:
    world.lookups.findings[LEDGER_ID] = NoSuchLedgerError(LEDGER_ID)
    group_count = len(world.groups)

    world.say_together(claim)
    assert world.answers == []
    world.looked_up()

    assert world.last_error() is NoSuchLedgerError
    assert len(world.groups) == group_count
    assert world.storage.homes.info(LEDGER_ID) is None

    world.lookups.findings[LEDGER_ID] = KnownLedger(OTHER_KEY, VD)  # it is made
    world.say_together(add(batch(0, [b"its writer's"]), key=OTHER_KEY, kind=VD))
    world.looked_up()
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(
    ("found", "error"),
    [
        (KnownLedger(OTHER_KEY, PD), UnauthorizedError),
        (KnownLedger(KEY, VD), UnsupportedLedgerError),
        (UNAVAILABLE, MetadataUnavailableError),
    ],
)
def test_nothing_is_stored_of_a_claim_that_the_metadata_do_not_confirm(
    world: World,
    claim: tuple[Request, *tuple[bytes, ...]],
    found: KnownLedger | MetadataUnavailableError,
    error: type[Exception],
) -> None:
    world.lookups.findings[LEDGER_ID] = found
    group_count = len(world.groups)

    world.say_together(claim)
    world.looked_up()

    assert world.last_error() is error
    assert len(world.groups) == group_count
    assert world.storage.homes.info(LEDGER_ID) is None


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_ledger_that_the_store_has_is_taken_in(
    world: World, claim: tuple[Request, *tuple[bytes, ...]]
) -> None:
    world.lookups.findings[LEDGER_ID] = KnownLedger(KEY, PD)

    world.say_together(claim)
    world.looked_up()
    world.settle()

    assert world.storage.homes.info(LEDGER_ID) is not None
    asked_count = len(world.lookups.asked)
    world.say_together(claim)
    assert len(world.lookups.asked) == asked_count == 0


def test_requests_of_a_new_ledger_keep_their_order(world: World) -> None:
    """Whatever comes behind the first add finds what that has stored."""
    world.say_together(
        add(batch(0, [b"a"]), kind=VD, request_id=1),
        add(batch(1, [b"b"]), kind=VD, request_id=2),
        (Sync(request_id=3, ledger_id=LEDGER_ID, ledger_key=KEY, lac=-1),),
        (info(),),
        (read_lac(request_id=6, kind=VD, is_fencing=True),),
        add(batch(2, [b"late"]), kind=VD, request_id=7),
    )
    assert world.answers == []

    world.looked_up()
    world.settle()

    by_id = {answer.request_id: answer for answer in world.answers}
    assert isinstance(by_id[1], AddAnswer)
    assert isinstance(by_id[2], AddAnswer)
    assert isinstance(by_id[3], SyncAnswer)
    assert by_id[3].last_add_synced == 1
    assert isinstance(by_id[8], LedgerInfo)
    assert by_id[8].is_known
    assert isinstance(by_id[6], LacAnswer)
    assert isinstance(by_id[7], Refused)  # fenced


def test_other_ledgers_do_not_wait(world: World) -> None:
    world.say_together(
        add(batch(0, [b"new"]), request_id=1),
        add(batch(1, [b"held"], ledger_id=HELD_ID), request_id=2),
    )
    world.settle()

    assert names(world.answers) == [2]
    world.looked_up()
    world.settle()
    assert names(world.answers) == [2, 1]


def test_what_only_asks_of_an_unknown_ledger_is_answered_at_once(world: World) -> None:
    sync = Sync(request_id=3, ledger_id=LEDGER_ID, ledger_key=KEY, lac=5)

    world.say_together((read(0, 0),), (read_lac(),), (sync,), (info(),))

    assert [type(answer) for answer in world.answers] == [Refused, Refused, Refused, LedgerInfo]
    assert world.lookups.asked == []


def test_the_wrong_key_refuses_only_those_who_show_it(world: World) -> None:
    world.lookups.findings[LEDGER_ID] = KnownLedger(KEY, PD)

    world.say_together(
        add(batch(0, [b"not mine"]), key=OTHER_KEY, request_id=1),
        add(batch(0, [b"mine"]), request_id=2),
    )
    world.looked_up()
    world.settle()

    first, second = world.answers
    assert (type(first), first.request_id) == (Refused, 1)
    assert (type(second), second.request_id) == (AddAnswer, 2)


def test_a_claim_under_way_when_its_ledger_is_made_does_not_refuse_the_writer(
    world: World,
) -> None:
    """The answer to the question that the claim has raised was true before the ledger was made."""
    world.lookups.findings[LEDGER_ID] = NoSuchLedgerError(LEDGER_ID)
    world.say_together((read_lac(request_id=1, key=OTHER_KEY, is_fencing=True),))
    world.say_together(add(batch(0, [b"its writer's"]), request_id=2))

    first = world.lookups.answer({LEDGER_ID: PD})
    assert first is not None
    world.tell(first)
    world.lookups.findings[LEDGER_ID] = KnownLedger(KEY, PD)
    world.looked_up()
    world.settle()

    refused, added = world.answers
    assert (type(refused), refused.request_id) == (Refused, 1)
    assert (type(added), added.request_id) == (AddAnswer, 2)


def test_new_ledgers_that_come_together_are_one_question(world: World) -> None:
    world.say_together(*(add(batch(0, [b"x"], ledger_id=one)) for one in range(100, 150)))

    assert world.lookups.asked == [[*range(100, 150)]]
    world.looked_up()
    world.settle()
    assert [type(answer) for answer in world.answers] == [AddAnswer] * 50


def test_beyond_the_limit_requests_of_new_ledgers_are_refused_as_busy(world: World) -> None:
    claim = (lac(),)
    world.say_together(*[claim] * WAITING_COUNT_MAX)
    assert world.answers == []

    world.say_together(claim, (lac(LEDGER_ID + 2),), (read(0, 0, ledger_id=HELD_ID),))

    assert [type(answer) for answer in world.answers] == [Refused, Refused]
    assert world.last_error() is BusyError
    world.fetched()
    assert isinstance(world.answers[-1], ReadAnswer)


def test_a_ledger_deleted_while_the_store_is_asked_is_not_taken_in(world: World) -> None:
    world.lookups.findings[LEDGER_ID] = KnownLedger(KEY, PD)
    world.say_together(add(batch(0, [b"late"])))

    told: list[Answered] = []
    world.tell(ForgetLedgers([LEDGER_ID], Box(told), 5))
    world.looked_up()

    assert told == [Answered(5, value=True)]
    assert world.last_error() is NoSuchLedgerError
    assert world.storage.homes.info(LEDGER_ID) is None


def test_what_waits_when_the_bookie_stops_is_refused(world: World) -> None:
    world.say_together(add(batch(0, [b"x"])))
    is_quiet = threading.Event()

    world.tell(Quiesce(is_quiet))
    world.settle()
    world.looked_up()  # the answer comes late

    assert is_quiet.is_set()
    assert world.last_error() is BusyError
    assert len(world.answers) == 1
    assert world.failures == []
