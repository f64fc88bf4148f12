"""Having a bookie collect garbage now, for tools: asks for a round, and follows it to its end.

Runs in the caller's thread.
"""

import threading
from typing import Final, Literal, TypeAlias

from zbk.client.cluster.requests import Requests
from zbk.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    NotEnoughBookiesError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.system.deadline import left_s, within
from zbk.wire.messages import CollectGarbage, GarbageStatus

CompactionName: TypeAlias = Literal["", "minor", "major"]

POLL_S: Final = 0.1
"""How often the bookie is asked how it goes."""


def compaction_name(value: object) -> CompactionName:
    """Return the name of a kind of compaction; empty is none.

    Raises:
        ArgumentTypeError: it is no text.
        ArgumentValueError: there is no such kind.
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
    """Ask a bookie to begin a round of garbage collection; return how it was when it ended.

    A compaction of this kind follows in the round, whether it is due or not.

    Raises:
        BookieUnavailableError: it is not there.
        RequestTimeoutError: the round has begun, or will, and has not ended in time.
    """
    wanted = CollectGarbage(request_id=0, compaction=compaction)
    look = CollectGarbage(request_id=0, is_round_wanted=False)
    pause = threading.Event()
    with within(timeout_s):
        awaited_round = _ask(requests, bookie_id, wanted).awaited_round
        while True:
            status = _ask(requests, bookie_id, look)
            if status.ended_round >= awaited_round:
                return status
            if left_s(timeout_s) <= 0:
                raise RequestTimeoutError(f"garbage collection at bookie {bookie_id}", timeout_s)
            pause.wait(left_s(POLL_S))


def _ask(requests: Requests, bookie_id: str, request: CollectGarbage) -> GarbageStatus:
    outcome = requests.ask(bookie_id, request).outcome
    if isinstance(outcome, ZbkError):
        raise outcome
    if not isinstance(outcome, GarbageStatus):
        raise NotEnoughBookiesError(1, 0, f"bookie {bookie_id} answered something else")
    return outcome
