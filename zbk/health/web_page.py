"""A page that a bookie serves over HTTP, at the URL in its registration.

The URL leads anywhere, and the answer is anything: it is read within a size and a time.
"""

from http.client import HTTPException
from urllib.error import HTTPError

from zbk.health.direct_http import DIRECT, read_within


def web_page(url: str, timeout_s: float, size_max: int) -> bytes:
    """Return the first ``size_max`` bytes of a page; ``b""`` if there is none in time."""
    if not url.startswith(("http://", "https://")):
        return b""
    try:
        with DIRECT.open(url, timeout=timeout_s) as answer:
            return read_within(answer, size_max, timeout_s)
    except HTTPError as error:
        error.close()  # it has the connection
    except (OSError, ValueError, HTTPException):
        pass
    return b""
