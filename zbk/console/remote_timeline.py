"""The timeline of a console elsewhere, over HTTP: ``/events.jsonl``.

The numbers of events begin anew when a console starts again. It says when it started, so a reader
that continues notices.
"""

from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError

import msgspec

from zbk.console.history import Event
from zbk.conversion import decode_json
from zbk.errors import InvalidOptionError, UnavailableError
from zbk.health.direct_http import DIRECT, read_within

PATH: Final = "/events.jsonl"
STARTED_HEADER: Final = "ZBK-Started-Ms"
"""The wall clock when the first event could happen, in milliseconds."""

TIMEOUT_S: Final = 5.0
ANSWER_SIZE_MAX: Final = 4 * 1024 * 1024


class RemoteTimeline:
    """The events of the console at a URL. ``UnavailableError`` if it does not answer."""

    def __init__(self, url: str, after: int = 0) -> None:
        """``after``: the number of the last event that is known.

        Raises:
            InvalidOptionError: the URL is none of HTTP.
        """
        if not url.startswith(("http://", "https://")):
            raise InvalidOptionError("console", url, "give its URL: http://HOST:PORT")
        self._url = url.rstrip("/")
        self._after = after
        self._started_ms = ""

    def fresh(self) -> list[Event]:
        """Return the events that were not returned before, the oldest first.

        Raises:
            UnavailableError: the console does not answer, or it is none.
        """
        started_ms, found = self._ask()
        if self._started_ms and started_ms != self._started_ms:
            self._after = 0  # another run, with numbers of its own
            started_ms, found = self._ask()
        self._started_ms = started_ms
        if found:
            self._after = found[-1].number
        return found

    def _ask(self) -> tuple[str, list[Event]]:
        url = f"{self._url}{PATH}?after={self._after}"
        try:
            with DIRECT.open(url, timeout=TIMEOUT_S) as answer:
                started_ms = answer.headers.get(STARTED_HEADER, "")
                lines = read_within(answer, ANSWER_SIZE_MAX, TIMEOUT_S).splitlines()
            return started_ms, [decode_json(one, Event) for one in lines]
        except HTTPError as error:
            error.close()
            reason = f"the console at {self._url} answers {error.code}: is it a console of zbk?"
            raise UnavailableError(reason) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = f"what answers at {self._url} is no console of zbk"
            raise UnavailableError(reason) from error
        except (OSError, ValueError, HTTPException) as error:
            reason = f"the console at {self._url} does not answer: {_why(error)}"
            raise UnavailableError(reason) from error


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason)
