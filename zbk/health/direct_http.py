"""HTTP to the processes of the cluster, past any proxy.

A proxy in the environment is for the world outside. It does not reach loopback, and often not the
hosts of a cluster.
"""

import urllib.request
from http.client import HTTPResponse
from typing import Final

from zbk.system.clock import monotonic_s

PART_SIZE: Final = 64 * 1024

DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs. Any thread may use it."""


def read_within(answer: HTTPResponse, size_max: int, timeout_s: float) -> bytes:
    """Return the first ``size_max`` bytes of the body of an answer.

    The timeout of a connection counts from one part to the next; this one counts for all of them.

    Raises:
        TimeoutError: they are not there in time.
        OSError: the connection failed.
    """
    deadline_s = monotonic_s() + timeout_s
    parts: list[bytes] = []
    left = size_max
    while left and (part := answer.read1(min(left, PART_SIZE))):
        parts.append(part)
        left -= len(part)
        if answer.length != 0 and monotonic_s() > deadline_s:
            raise TimeoutError("the answer is too slow")
    return b"".join(parts)
