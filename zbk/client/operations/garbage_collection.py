"""Garbage collection at a bookie on request: starts a round and follows it to its end.

``switch_compaction`` suspends and resumes compaction there. Runs in the caller's thread.
"""

import threading
from collections.abc import Collection, Iterable
from typing import Final, Literal, TypeAlias

from zbk.client.cluster.requests import Requests
from zbk.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    BookieUnavailableError,
    RequestTimeoutError,
)
from zbk.system.deadline import left_s, within
from zbk.wire.messages import CollectGarbage, GarbageStatus

KindName: TypeAlias = Literal["minor", "major"]
CompactionName: TypeAlias = KindName | Literal[""]

POLL_S: Final = 0.1
"""The interval at which the bookie is asked for its status."""


def compaction_name(value: object) -> CompactionName:
    """Return the name of a kind of compaction; "" is none.

    Raises:
        ArgumentTypeError: it is not a text.
        ArgumentValueError: no kind has this name.
    """
    why = 'give "minor", "major", or "" for none'
    match value:
        case "" | "minor" | "major":
            return value
        case str():
            raise ArgumentValueError("compaction", value, why)
        case _:
            raise ArgumentTypeError("compaction", type(value).__name__, why)


def compaction_kinds(name: str, values: object) -> set[KindName]:
    """Return the kinds of compaction in a list.

    Raises:
        ArgumentTypeError: it is no list of texts.
        ArgumentValueError: no kind has one of the names.
    """
    why = 'give a list of "minor" and "major"'
    if not isinstance(values, Iterable) or isinstance(values, bytes):
        raise ArgumentTypeError(name, type(values).__name__, why)
    kinds: set[KindName] = set()
    for one in values:
        match one:
            case "minor" | "major":
                kinds.add(one)
            case str():
                raise ArgumentValueError(name, one, why)
            case _:
                raise ArgumentTypeError(name, type(one).__name__, why)
    return kinds


def collect_garbage(
    requests: Requests, bookie_id: str, timeout_s: float, compaction: CompactionName = ""
) -> GarbageStatus:
    """Start a round of garbage collection at a bookie; return the status at its end.

    A compaction of the given kind is part of the round, whether it is due or not.

    Raises:
        BookieUnavailableError: the bookie is not there.
        RequestTimeoutError: the round has not ended in time, and continues.
    """
    wanted = CollectGarbage(request_id=0, compaction=compaction)
    look = CollectGarbage(request_id=0, is_round_wanted=False)
    pause = threading.Event()
    with within(timeout_s):
        awaited_round = requests.call(bookie_id, wanted, GarbageStatus).awaited_round
        while True:
            status = requests.call(bookie_id, look, GarbageStatus)
            if status.ended_round >= awaited_round:
                return status
            if left_s(timeout_s) <= 0:
                raise RequestTimeoutError(f"garbage collection at bookie {bookie_id}", timeout_s)
            pause.wait(left_s(POLL_S))


def switch_compaction(
    requests: Requests,
    bookie_id: str,
    *,
    suspend: Collection[KindName] = (),
    resume: Collection[KindName] = (),
) -> list[str]:
    """Suspend and resume kinds of compaction; return those that are suspended now.

    A bookie resumes all when it restarts. Without any kind, nothing changes.

    Raises:
        BookieUnavailableError: the bookie is not there, or too old to suspend compaction.
    """
    request = CollectGarbage(
        request_id=0, is_round_wanted=False, suspend=sorted(suspend), resume=sorted(resume)
    )
    suspended = requests.call(bookie_id, request, GarbageStatus).suspended
    if not set(suspended).issuperset(set(suspend) - set(resume)):
        raise BookieUnavailableError(bookie_id, "its version cannot suspend compaction")
    return list(suspended)
