"""Checks of a request before its application sees it, and the answer to an application's bug.

    what                                     answer
    head over ``HEAD_SIZE_MAX``              431
    a version that is not 1.0 or 1.1         505
    a target that is no path                 400
    ``Host`` that is not this server         421, on loopback only
    body over ``BODY_SIZE_MAX``              413
    an exception of the application          500, and a line in the log

``Host``: a page of any web site can let a browser connect to loopback, by a name that its owner
points there. Such a request carries that name. An address in numbers, ``localhost`` and the names
of this machine cannot belong to a web site. Beyond loopback the names of a machine are not known
here, and whatever changes or reveals data needs a token there.

Answers that name no other policy are not stored by caches.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zbk.system.event_log import EventLog

HEAD_SIZE_MAX: Final = 16 * 1024
BODY_SIZE_MAX: Final = 1024 * 1024

LOG = EventLog("zbk.http")


class Guard:
    """An application with its checks."""

    def __init__(self, app: ASGIApp, names: Collection[str] | None) -> None:
        """``names``: the names of this server beside addresses and ``localhost``; None: any."""
        self._app = app
        self._names = None if names is None else {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_begun = False
        size = 0

        async def begin(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                message = {**message, "headers": _with_defaults(list(message.get("headers", [])))}
            await send(message)

        async def receive_bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > BODY_SIZE_MAX:
                raise HTTPException(413, f"the body is larger than {BODY_SIZE_MAX} bytes")
            return message

        problem = self._problem(scope)
        try:
            if problem is None:
                await self._app(scope, receive_bounded, begin)
                return
        except (asyncio.CancelledError, ClientDisconnect):  # the connection has ended
            return
        except HTTPException as error:  # of an application without starlette's own handler
            problem = error.status_code, error.detail
        except Exception:
            LOG.exception("http.failed", "a request for %(path)s failed", path=scope["path"])
            problem = 500, "an error of zbk: see its log"
        if not is_begun:
            status, text = problem
            await PlainTextResponse(f"{text}\n", status)(scope, receive, begin)

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        head_size = len(scope["raw_path"]) + len(scope["query_string"])
        if head_size + sum(len(name) + len(value) + 4 for name, value in headers) > HEAD_SIZE_MAX:
            return 431, f"the head of the request is larger than {HEAD_SIZE_MAX} bytes"
        if scope["http_version"] not in ("1.0", "1.1"):
            return 505, "speak HTTP/1.1"
        if not scope["path"].startswith("/"):
            return 400, "the target is no path"
        named = dict(headers)
        if self._names is not None and not _is_own(named.get(b"host", b""), self._names):
            return 421, "the Host header names another server: use an address or localhost"
        length = named.get(b"content-length", b"0")
        if length.isdigit() and int(length) > BODY_SIZE_MAX:
            return 413, f"the body is larger than {BODY_SIZE_MAX} bytes"
        return None


def own_names(host: str) -> set[str]:
    """Return the names that a request to a server at ``host`` may have in ``Host``."""
    return {host, socket.gethostname()}


def _is_own(host: bytes, names: set[str]) -> bool:
    name = host.decode("latin-1").lower()
    if not name.endswith("]"):
        before, colon, port = name.rpartition(":")
        name = before if colon and port.isdigit() else name
    name = name.removeprefix("[").removesuffix("]").removesuffix(".")
    if not name or name == "localhost" or name.endswith(".localhost") or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _with_defaults(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name.lower() for name, _value in headers}
    defaults = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
    return headers + [one for one in defaults if one[0] not in given]
