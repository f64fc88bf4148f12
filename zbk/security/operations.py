"""What each operation of the wire needs: a right in its ledger, or a role in the cluster.

    operation                     needs
    ---------------------------   ---------------------------------------------------------
    add, write_lac, sync          append
    add of a recovery             recover: also repair writes such entries
    read, read_lac, watch_lacs    read; for each watch of its own
    read, read_lac with a fence   recover
    ledger_info                   read, or a role: it tells which entries a bookie holds
    gc, scrub                     role operator; only to see the progress: any role. A new field
                                  needs the role operator, too
    bookie_info                   a key that is admitted: it tells of no ledger
    hello, ping                   nothing: they come before there is a principal, or do nothing

An operation that is not in the table is refused: a new one needs a rule.

Pure.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from zbk.security.rights import APPEND, INSPECT, NAMES, OPERATE, READ, RECOVER, STATUS
from zbk.wire.messages import (
    Add,
    CollectGarbage,
    GetBookieInfo,
    GetLedgerInfo,
    Hello,
    Message,
    Ping,
    Read,
    ReadLac,
    Scrub,
    Sync,
    WatchLacs,
    WriteLac,
)

NOTHING: Final = 0
NEVER: Final = 1 << 31
"""A bit that no mask has."""

Need: TypeAlias = Callable[[Any], int]

LEDGER_NEEDS: Final[dict[type[Message], Need]] = {
    Add: lambda request: RECOVER if request.is_recovery else APPEND,
    Read: lambda request: RECOVER if request.is_fencing else READ,
    ReadLac: lambda request: RECOVER if request.is_fencing else READ,
    WriteLac: lambda _request: APPEND,
    Sync: lambda _request: APPEND,
    GetLedgerInfo: lambda _request: INSPECT,
}
"""Operations on one ledger, and the bit that each needs."""

_LOOK_AT_GC: Final = CollectGarbage(request_id=0, is_round_wanted=False)
_LOOK_AT_SCRUB: Final = Scrub(request_id=0, is_pass_wanted=False)


def _is_look(request: Message, look: Message) -> bool:
    """Return whether a request asks for nothing but a status, in any of its fields."""
    ids = {"request_id": request.request_id, "incarnation": request.incarnation}
    return request == msgspec.structs.replace(look, **ids)


BOOKIE_NEEDS: Final[dict[type[Message], Need]] = {
    CollectGarbage: lambda request: STATUS if _is_look(request, _LOOK_AT_GC) else OPERATE,
    Scrub: lambda request: STATUS if _is_look(request, _LOOK_AT_SCRUB) else OPERATE,
    GetBookieInfo: lambda _request: NOTHING,
    Hello: lambda _request: NOTHING,
    Ping: lambda _request: NOTHING,
}
"""Operations on a bookie, and the bit that each needs."""

WATCH_NEED: Final = READ
"""What each watch of a ``WatchLacs`` needs in its ledger."""

MANY_LEDGERS: Final = frozenset({WatchLacs})
"""Operations on many ledgers, each decided by itself."""


class RoleNeed(msgspec.Struct, frozen=True):
    """The role that one asks for who lacks a bit of a bookie operation."""

    operation: str
    role: str


ROLE_NEEDS: Final = {
    OPERATE: RoleNeed("start garbage collection or a scrub", "operator"),
    STATUS: RoleNeed("see garbage collection or a scrub", "auditor"),
    NEVER: RoleNeed("use an operation without a rule", "operator"),
}


def bookie_need(request: Message) -> int:
    """Return the bit that an operation on a bookie needs."""
    rule = BOOKIE_NEEDS.get(type(request))
    return NEVER if rule is None else rule(request)


def makes_known(request: Message) -> bool:
    """Return whether a request makes a ledger known to a bookie that does not hold it."""
    if isinstance(request, Read | ReadLac):
        return request.is_fencing
    return isinstance(request, Add | WriteLac)


def right_name(need: int) -> str:
    """Return the name of the right for a bit of a ledger operation."""
    return NAMES[need]
