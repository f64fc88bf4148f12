"""The routes of the admin API.

    status   what failed
    400      the call was wrong
    401      the token is missing or wrong
    403      a ledger's password, an action without ``--allow-actions``, no token beyond loopback
    404      there is no such ledger, log, data set, version or route
    405      the route has other methods
    409      the metadata changed meanwhile, or do not allow it: a ledger is closed already
    500      damage, or a bug
    503      bookies or the metadata store do not answer, or the API is busy
    504      a time limit passed; the action may have happened

An error is ``{"code": zbk's error code, "error": its text}``; code 0 is none of zbk's errors.

Threads: operations block and run in up to ``CALL_COUNT_MAX`` threads; others wait, up to
``WAITING_COUNT_MAX`` of them. An operation goes on after its client has gone.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from zbk.admin.access import Access
from zbk.admin.cluster import Cluster
from zbk.admin.openapi import PATH, document
from zbk.admin.operation import SECRET_HEADER, Operation
from zbk.admin.operations import OPERATIONS
from zbk.audit.record import AuditRecord
from zbk.errors import (
    CallerError,
    DataSetConflictError,
    InvalidOptionError,
    LedgerClosedError,
    MetadataConflictError,
    NoNodeError,
    NoSuchDataSetError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NoSuchLogError,
    NoSuchVersionError,
    RequestTimeoutError,
    RoleRequiredError,
    UnauthorizedError,
    UnavailableError,
    ZbkError,
)
from zbk.system.event_log import EventLog

CALL_COUNT_MAX: Final = 4
WAITING_COUNT_MAX: Final = 32
BODY_SIZE_MAX: Final = 16 * 1024

LOG = EventLog("zbk.admin")

_STATUSES: Final[tuple[tuple[type[ZbkError], int], ...]] = (  # the first that fits
    (NoSuchLedgerError, 404),
    (NoSuchEntryError, 404),
    (NoSuchLogError, 404),
    (NoSuchDataSetError, 404),
    (NoSuchVersionError, 404),
    (NoNodeError, 404),
    (UnauthorizedError, 403),
    (RoleRequiredError, 403),
    (LedgerClosedError, 409),
    (DataSetConflictError, 409),
    (CallerError, 400),
    (MetadataConflictError, 409),
    (RequestTimeoutError, 504),
    (UnavailableError, 503),
)


def admin_routes(cluster: Cluster, access: Access) -> Sequence[BaseRoute]:
    """Return the routes of the admin API on a cluster."""
    api = _Api(cluster, access)
    by_path: dict[str, dict[str, Operation]] = {}
    for one in OPERATIONS:
        by_path.setdefault(one.path, {})[one.method] = one
    made = [Route(path, _Endpoint(api, operations)) for path, operations in by_path.items()]
    return [
        Route("/heartbeat", _heartbeat),
        Route(PATH, api.describe),
        *made,
        Route("/api/{rest:path}", _no_route, methods=["GET", "PUT", "POST", "DELETE"]),
    ]


class _Api:
    def __init__(self, cluster: Cluster, access: Access) -> None:
        self._cluster = cluster
        self._access = access
        self._limiter: anyio.CapacityLimiter | None = None  # of the loop, which starts later

    async def describe(self, request: Request) -> Response:
        refused = self._refused(request)
        return refused or _Json(document(has_actions=self._access.has_actions))

    async def answer(self, operation: Operation, request: Request) -> Response:
        response, given = await self._answer(operation, request)
        is_refused = response.status_code in (401, 403)
        if operation.is_action or operation.reads_entries or is_refused:
            is_done = response.status_code < 400
            ledger_id = given.get("ledger_id")
            self._cluster.audit(
                AuditRecord(
                    action="admin",
                    outcome="refused" if is_refused else "done" if is_done else "failed",
                    address=f"{request.client.host}:{request.client.port}"
                    if request.client
                    else "",
                    ledger_id=ledger_id if isinstance(ledger_id, int) else None,
                    what=f"{operation.method} {operation.path}",
                )
            )
        return response

    async def _answer(
        self, operation: Operation, request: Request
    ) -> tuple[Response, Mapping[str, object]]:
        """Return the response, and the parameters without secrets as far as they are known."""
        refused = self._refused(request)
        if refused is not None:
            return refused, {}
        if operation.is_action and not self._access.has_actions:
            text = "actions are not allowed: start the process with --allow-actions"
            return failure(403, text), {}
        limiter = self._limiter = self._limiter or anyio.CapacityLimiter(CALL_COUNT_MAX)
        if limiter.statistics().tasks_waiting >= WAITING_COUNT_MAX:
            return failure(503, "too many calls wait"), {}
        arguments: dict[str, object] = {}
        try:
            arguments = operation.arguments(await _given(operation, request))
            found = await anyio.to_thread.run_sync(
                operation.run, self._cluster, arguments, abandon_on_cancel=True, limiter=limiter
            )
        except ZbkError as error:
            return failure(_status(error), str(error), error.code), arguments
        if operation.is_action:
            arguments.pop(operation.secret, None)
            LOG.info(
                "admin.action",
                "%(method)s %(path)s was done",
                method=operation.method,
                path=operation.path,
                operation=operation.name,
                given=arguments,
            )
        return _Json(found), arguments

    def _refused(self, request: Request) -> Response | None:
        refusal = self._access.refusal(request.headers.get("authorization", ""))
        return None if refusal is None else failure(*refusal)


class _Endpoint:
    """Answers the requests of one path. An instance, so that starlette calls it as ASGI."""

    def __init__(self, api: _Api, operations: Mapping[str, Operation]) -> None:
        self._api = api
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        method = "GET" if request.method == "HEAD" else request.method
        if method in self._operations:
            response = await self._api.answer(self._operations[method], request)
        else:
            response = failure(405, f"the methods are {', '.join(self._operations)}")
            response.headers["allow"] = ", ".join(self._operations)
        await response(scope, receive, send)


class _Json(JSONResponse):
    """JSON in ASCII: a text of a request may have halves of characters, which UTF-8 cannot show."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def failure(status: int, text: str, code: int = 0) -> Response:
    """Return the answer for an error."""
    return _Json({"code": code, "error": text}, status)


async def _given(operation: Operation, request: Request) -> dict[str, object]:
    """Return the parameters in query, header and body.

    Raises:
        InvalidOptionError: one is given twice, the body is no JSON object, or a secret is in the
            query.
    """
    pairs: list[tuple[str, object]] = list(request.query_params.multi_items())
    secret = operation.secret
    if secret and secret in request.query_params:
        reason = f"may not be in the query: use the header {SECRET_HEADER}"
        raise InvalidOptionError(secret, "", reason)
    if secret:
        header = SECRET_HEADER.lower().encode()
        pairs += [(secret, value) for name, value in request.headers.raw if name == header]
    if operation.has_body:
        pairs += (await _body(request)).items()
    given = dict(pairs)
    if len(given) != len(pairs):
        raise InvalidOptionError("parameters", len(pairs), "one is given twice")
    return given


async def _body(request: Request) -> dict[str, object]:
    text = await request.body()
    if not text:
        return {}
    found = None
    if len(text) <= BODY_SIZE_MAX:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
    if not isinstance(found, dict):
        reason = f"must be a JSON object of at most {BODY_SIZE_MAX} bytes"
        raise InvalidOptionError("body", len(text), reason)
    return found


def _status(error: ZbkError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


async def _heartbeat(_request: Request) -> Response:
    return PlainTextResponse("OK\n")


async def _no_route(_request: Request) -> Response:
    return failure(404, f"there is no such route or method: {PATH} names all")
