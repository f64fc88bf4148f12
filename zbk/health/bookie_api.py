"""Questions to the admin APIs of running bookies, at the URLs of their registrations.

A bookie that serves no admin API to this machine has a reason instead of an answer. Up to
``THREAD_COUNT`` bookies are asked at the same time.
"""

import json
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError

import msgspec

from zbk.health.direct_http import DIRECT, read_within
from zbk.health.redaction import redacted

ANSWER_SIZE_MAX: Final = 256 * 1024
DOCUMENT_PATH: Final = "/api/v1/openapi.json"
TEXT_SIZE_MAX: Final = 500
THREAD_COUNT: Final = 16
TIMEOUT_S: Final = 1.0

PATIENCE_S: Final = 10.0
"""For a process of this machine: if it is not there, that shows at once."""


class NoAnswer(msgspec.Struct, frozen=True):
    """A bookie did not answer, and why."""

    why: str
    is_silent: bool = False  # it may be there: no answer came in time


def ask_admin_apis(
    urls: Mapping[str, str], path: str, token: str = "", timeout_s: float = TIMEOUT_S
) -> dict[str, object]:
    """Return the JSON that each bookie answers with at a path, or a ``NoAnswer``, by bookie id.

    ``urls`` by bookie id, as registered. What is no JSON counts as null. ``token`` is what the
    admin APIs require; each of the URLs receives it.
    """
    with ThreadPoolExecutor(THREAD_COUNT, "zbk-admin-apis") as threads:
        answers = threads.map(lambda url: _answer(url, path, token, timeout_s), urls.values())
        return dict(zip(urls, answers, strict=True))


def _answer(url: str, path: str, token: str, timeout_s: float) -> object:
    if not url.startswith(("http://", "https://")):
        return NoAnswer("it serves no HTTP")
    try:
        request = urllib.request.Request(f"{url}{path}")  # noqa: S310 - checked
        if token:  # and never to where a redirection leads
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        with DIRECT.open(request, timeout=timeout_s) as answer:
            return json.loads(read_within(answer, ANSWER_SIZE_MAX, timeout_s))
    except HTTPError as error:
        with error:  # it has the connection
            return NoAnswer(_reason(error))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return None
    except (OSError, ValueError, HTTPException) as error:
        late = isinstance(getattr(error, "reason", error), TimeoutError)
        return NoAnswer("its HTTP endpoint does not answer", is_silent=late)


def _reason(error: HTTPError) -> str:
    try:
        text = str(json.loads(error.read(ANSWER_SIZE_MAX))["error"])
    except (OSError, ValueError, HTTPException, RecursionError, KeyError, TypeError):
        text = "it has no such route"
    return f"{error.code}: {redacted(text)[:TEXT_SIZE_MAX]}"
