"""Scrubbing at a bookie on request: starts a pass and follows it to its end.

Runs in the caller's thread.
"""

import threading
from collections.abc import Callable
from typing import Final

from zbk.client.cluster.requests import Requests
from zbk.errors import BookieUnavailableError, RequestTimeoutError
from zbk.system.clock import monotonic_s
from zbk.system.deadline import within
from zbk.wire.messages import Scrub, ScrubStatus

POLL_S: Final = 0.25
"""The interval at which the bookie is asked for its status."""


def ask_scrub(requests: Requests, bookie_id: str, *, is_pass_wanted: bool) -> ScrubStatus:
    """Return a bookie's status of scrubbing, at once; start a pass if one is wanted.

    Raises:
        BookieUnavailableError: the bookie is not there.
    """
    request = Scrub(request_id=0, is_pass_wanted=is_pass_wanted)
    return requests.call(bookie_id, request, ScrubStatus)


def follow_scrub(
    requests: Requests,
    bookie_id: str,
    begun: ScrubStatus,
    timeout_s: float,
    tell: Callable[[ScrubStatus], None],
) -> ScrubStatus:
    """Return the status at the end of the pass that ``begun`` announced; ``tell`` it meanwhile.

    If another client started one more pass meanwhile, the status is that of the later one.

    Raises:
        BookieUnavailableError: the bookie is not there, or has restarted, so the pass is lost.
        RequestTimeoutError: the pass has not ended in time, and continues.
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
