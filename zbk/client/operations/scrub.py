"""Having a bookie look for damage now, for tools: begins a pass, and follows it to its end.

Runs in the caller's thread.
"""

import threading
from collections.abc import Callable
from typing import Final

from zbk.client.cluster.requests import Requests
from zbk.errors import (
    BookieUnavailableError,
    NotEnoughBookiesError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.system.clock import monotonic_s
from zbk.system.deadline import within
from zbk.wire.messages import Scrub, ScrubStatus

POLL_S: Final = 0.25
"""How often the bookie is asked how it goes."""


def ask_scrub(requests: Requests, bookie_id: str, *, is_pass_wanted: bool) -> ScrubStatus:
    """Return how scrubbing goes at a bookie, at once; a pass begins if it is wanted.

    Raises:
        BookieUnavailableError: it is not there.
    """
    request = Scrub(request_id=0, is_pass_wanted=is_pass_wanted)
    outcome = requests.ask(bookie_id, request).outcome
    if isinstance(outcome, ZbkError):
        raise outcome
    if not isinstance(outcome, ScrubStatus):
        raise NotEnoughBookiesError(1, 0, f"bookie {bookie_id} answered something else")
    return outcome


def follow_scrub(
    requests: Requests,
    bookie_id: str,
    begun: ScrubStatus,
    timeout_s: float,
    tell: Callable[[ScrubStatus], None],
) -> ScrubStatus:
    """Return how the pass went that ``begun`` promised, once it has ended; ``tell`` on the way.

    If others began one more meanwhile, it is that one's.

    Raises:
        BookieUnavailableError: it is not there, or has restarted, and the pass is lost.
        RequestTimeoutError: it is still at it.
    """
    deadline_s = monotonic_s() + timeout_s
    pause = threading.Event()
    while True:
        with within(deadline_s - monotonic_s()):
            status = ask_scrub(requests, bookie_id, is_pass_wanted=False)
        if status.incarnation != begun.incarnation:
            raise BookieUnavailableError(bookie_id, "it has restarted, and the pass is lost")
        tell(status)
        if status.ended_pass >= begun.awaited_pass:
            return status
        left_s = deadline_s - monotonic_s()
        if left_s <= 0:
            raise RequestTimeoutError(f"the scrub of bookie {bookie_id}", timeout_s)
        pause.wait(min(left_s, POLL_S))
