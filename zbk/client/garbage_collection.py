"""Having a bookie collect garbage now, for tools: asks for a round, and follows it to its end.

Runs in the caller's thread.
"""

import threading
from typing import Final

from zbk.client.requests import Requests
from zbk.errors import NotEnoughBookiesError, RequestTimeoutError, ZbkError
from zbk.system.clock import monotonic_s
from zbk.wire.messages import CollectGarbage, GarbageStatus

POLL_S: Final = 0.1
"""How often the bookie is asked how it goes."""


def collect_garbage(requests: Requests, bookie_id: str, timeout_s: float) -> GarbageStatus:
    """Have a bookie begin a round of garbage collection; return how it was when it ended.

    Raises:
        BookieUnavailableError: it is not there.
        RequestTimeoutError: the round has begun, or will, and has not ended in time.
    """
    start_s = monotonic_s()
    awaited_round = _ask(requests, bookie_id, is_round_wanted=True).awaited_round
    pause = threading.Event()
    while True:
        status = _ask(requests, bookie_id, is_round_wanted=False)
        if status.ended_round >= awaited_round:
            return status
        if monotonic_s() - start_s > timeout_s:
            raise RequestTimeoutError(f"garbage collection at bookie {bookie_id}", timeout_s)
        pause.wait(POLL_S)


def _ask(requests: Requests, bookie_id: str, *, is_round_wanted: bool) -> GarbageStatus:
    request = CollectGarbage(request_id=0, is_round_wanted=is_round_wanted)
    outcome = requests.ask(bookie_id, request).outcome
    if isinstance(outcome, ZbkError):
        raise outcome
    if not isinstance(outcome, GarbageStatus):
        raise NotEnoughBookiesError(1, 0, f"bookie {bookie_id} answered something else")
    return outcome
