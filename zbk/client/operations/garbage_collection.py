"""Garbage collection at a bookie on request: starts a round and follows it to its end.

Runs in the caller's thread.
"""

import threading
from typing import Final, Literal, TypeAlias

from zbk.client.cluster.requests import Requests
from zbk.errors import ArgumentTypeError, ArgumentValueError, RequestTimeoutError
from zbk.system.deadline import left_s, within
from zbk.wire.messages import CollectGarbage, GarbageStatus

CompactionName: TypeAlias = Literal["", "minor", "major"]

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
