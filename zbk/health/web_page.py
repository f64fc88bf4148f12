"""A page that a bookie serves over HTTP, at the URL in its registration.

The URL leads anywhere, and the answer is anything: it is read within a size and a time.
"""

import urllib.request
from http.client import HTTPException
from urllib.error import HTTPError


def web_page(url: str, timeout_s: float, size_max: int) -> bytes:
    """Return the first ``size_max`` bytes of a page; ``b""`` if there is none in time."""
    if not url.startswith(("http://", "https://")):
        return b""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 - checked
            return bytes(answer.read(size_max))
    except HTTPError as error:
        error.close()  # it has the connection
    except (OSError, ValueError, HTTPException):
        pass
    return b""
