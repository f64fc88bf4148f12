"""Each operation of the wire has a rule."""

from typing import Any, get_args

import pytest

from zbk.protocol.entry.words import LedgerType
from zbk.security.operations import (
    BOOKIE_NEEDS,
    LEDGER_NEEDS,
    MANY_LEDGERS,
    NEVER,
    NOTHING,
    ROLE_NEEDS,
    bookie_need,
    right_name,
)
from zbk.security.rights import (
    ALL_RIGHTS,
    APPEND,
    INSPECT,
    OPERATE,
    READ,
    RECOVER,
    ROLE_RIGHTS,
    STATUS,
)
from zbk.wire.messages import (
    Add,
    CollectGarbage,
    GetBookieInfo,
    GetLedgerInfo,
    Message,
    PartRequest,
    Read,
    ReadLac,
    Request,
    Scrub,
    Sync,
    WriteLac,
)

LEDGER: dict[str, Any] = {"request_id": 1, "ledger_id": 7, "ledger_key": b"k" * 16}
TYPED = LEDGER | {"ledger_type": LedgerType.PD_JOURNAL}
ADD = TYPED | {"first_entry_id": 0, "count": 1, "lac": -1, "checksum": 0}
READ_ = TYPED | {"first_entry_id": 0, "last_entry_id": 0, "size_max": 1}


def test_each_operation_has_exactly_one_rule() -> None:
    """A new operation fails here until it has one."""
    ruled = [*LEDGER_NEEDS, *BOOKIE_NEEDS, *MANY_LEDGERS]

    assert set(ruled) == set(get_args(Request))
    assert len(set(ruled)) == len(ruled)


def test_each_part_of_a_bundle_is_an_operation_on_one_ledger() -> None:
    assert set(LEDGER_NEEDS) == set(get_args(PartRequest))


@pytest.mark.parametrize(
    ("request_", "need"),
    [
        (Add(**ADD), APPEND),
        (Add(**ADD, is_recovery=True), RECOVER),
        (Read(**READ_), READ),
        (Read(**READ_, is_fencing=True), RECOVER),
        (Read(**READ_, is_checked=True), READ),
        (ReadLac(**TYPED), READ),
        (ReadLac(**TYPED, wait_ms=9), READ),
        (ReadLac(**TYPED, is_fencing=True), RECOVER),
        (WriteLac(**TYPED, lac=0), APPEND),
        (Sync(**LEDGER, lac=0), APPEND),
        (GetLedgerInfo(request_id=1, ledger_id=7), INSPECT),
        (CollectGarbage(request_id=1), OPERATE),
        (CollectGarbage(request_id=1, is_round_wanted=False), STATUS),
        (CollectGarbage(request_id=1, is_round_wanted=False, compaction="minor"), OPERATE),
        (CollectGarbage(request_id=1, is_round_wanted=False, suspend=["minor"]), OPERATE),
        (CollectGarbage(request_id=1, is_round_wanted=False, resume=["major"]), OPERATE),
        (CollectGarbage(request_id=1, incarnation=2, is_round_wanted=False), STATUS),
        (Scrub(request_id=1), OPERATE),
        (Scrub(request_id=1, is_pass_wanted=False), STATUS),
        (GetBookieInfo(request_id=1), NOTHING),
    ],
    ids=str,
)
def test_an_operation_needs(request_: Message, need: int) -> None:
    rule = LEDGER_NEEDS.get(type(request_))

    assert (bookie_need(request_) if rule is None else rule(request_)) == need


def test_an_operation_without_a_rule_is_refused_to_all() -> None:
    class Strange(Message, frozen=True, tag="strange"):
        """Not in the table."""

    need = bookie_need(Strange(request_id=1))

    assert need == NEVER
    assert not any(mask & need for mask in ROLE_RIGHTS.values())
    assert ROLE_NEEDS[need].role == "operator"


def test_who_lacks_a_bit_is_told_what_to_ask_for() -> None:
    assert {right_name(bit) for bit in (APPEND, READ, RECOVER)} == {"append", "read", "recover"}
    assert right_name(INSPECT) == "read"
    for need, lack in ROLE_NEEDS.items():
        assert need == NEVER or ROLE_RIGHTS[lack.role] & need
    assert not (OPERATE | STATUS) & ALL_RIGHTS
