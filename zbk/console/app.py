"""The app: routes, and what holds for each request.

    Host            must be a name of this console (``zbk.http.guard``)
    POST            only with ``--allow-actions``, from a page of this console (Origin, and a token
                    that only its pages have), in a body of ``BODY_SIZE_MAX``
    scripts, styles from this console alone (Content-Security-Policy); no frames
    errors          a page, or JSON, with what failed and the next command; never a traceback
    /api            the admin API, with its own rules (``zbk.admin``)

A page is a function of the collector and the query that returns plain data. ``/x`` renders it, and
``/x.json`` returns it. Pages run in threads, so that a silent metadata store delays one request.
"""

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zbk.admin.routes import failure
from zbk.console import figures, ledger_map, ledger_pages, pages, settings
from zbk.console.actions import ACTIONS, Action, check_choice, check_subject
from zbk.console.collector import Collector
from zbk.console.durability import durability_page
from zbk.console.recovery import recovery_page
from zbk.console.remote_timeline import STARTED_HEADER
from zbk.console.texts import FILTERS
from zbk.errors import (
    InvalidOptionError,
    NoSuchLedgerError,
    UnavailableError,
    ZbkError,
)
from zbk.system.event_log import EventLog

BODY_SIZE_MAX: Final = 4_096
LIVE_INTERVAL_S: Final = 1.0
LIVE_COUNT_MAX: Final = 32

NAVIGATION: Final = (
    ("/", "Overview"),
    ("/bookies", "Bookies"),
    ("/ledgers", "Ledgers"),
    ("/durability", "Durability"),
    ("/recovery", "Recovery"),
    ("/performance", "Performance"),
    ("/events", "Events"),
    ("/datasets", "Data sets"),
    ("/logs", "Logs"),
    ("/config", "Configuration"),
)
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

LOG = EventLog("zbk.console")

PageData = Callable[[Collector, Mapping[str, str]], dict[str, Any]]
"""A page: collector, and the query with the parameters of the path."""


def make_app(
    collector: Collector,
    *,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    tables_source: str = "",
    allow_actions: bool = False,
    api: Sequence[BaseRoute] = (),
) -> ASGIApp:
    """Return the app. ``tables`` are those of the configuration file, ``api`` the admin API."""
    found: dict[str, tuple[str, PageData]] = {
        "/": ("overview", lambda c, _q: pages.overview(c)),
        "/bookies": ("bookies", lambda c, q: pages.bookies(c, q.get("page", "1"))),
        "/bookies/{bookie_id}": ("bookie", lambda c, q: pages.bookie(c, q["bookie_id"])),
        "/ledgers": ("ledgers", ledger_pages.ledger_list),
        "/ledgers/{ledger_id}": ("ledger", ledger_pages.ledger_page),
        "/durability": ("durability", durability_page),
        "/recovery": ("recovery", recovery_page),
        "/performance": ("performance", lambda c, _q: pages.performance(c)),
        "/events": ("events", lambda c, q: pages.event_page(c, q.get("lane", ""))),
        "/datasets": ("datasets", lambda c, q: settings.data_sets(c, q.get("after", "")[:128])),
        "/logs": ("logs", lambda c, q: settings.logs(c, q.get("after", "")[:128])),
        "/config": ("config", lambda c, _q: settings.configuration(c, tables or {}, tables_source)),
    }
    console = _Console(collector, allow_actions=allow_actions)
    routes: list[BaseRoute] = [
        *api,
        Route("/live", console.live),
        Route("/events.jsonl", console.event_lines),
        Route("/actions/{name}", console.ask_action, methods=["GET"]),
        Route("/actions/{name}", console.run_action, methods=["POST"]),
        Mount("/static", StaticFiles(packages=[("zbk.console", "static")])),
    ]
    for path, (template, page) in found.items():
        json_path = "/index.json" if path == "/" else f"{path}.json"
        routes.append(Route(json_path, console.twin(page)))
        routes.append(Route(path, console.page(template, page)))
    app = Starlette(
        routes=routes,
        # the guard logs the last kind
        exception_handlers=dict.fromkeys((ZbkError, HTTPException, Exception), console.failed),
    )
    return _WithHeaders(app)


class _WithHeaders:
    """Adds headers to all answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


class _Console:
    """The handlers."""

    def __init__(self, collector: Collector, *, allow_actions: bool) -> None:
        self._collector = collector
        self._allow_actions = allow_actions
        self._token = secrets.token_urlsafe(32)
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("zbk.console"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(FILTERS)
        self._templates.globals.update(
            figures=figures,
            ledger_map=ledger_map,
            navigation=NAVIGATION,
            allow_actions=allow_actions,
        )

    def page(self, template: str, page: PageData) -> Callable[[Request], Any]:
        """Return the handler of a page."""

        async def handle(request: Request) -> Response:
            return await run_in_threadpool(self._rendered, template, page, request)

        return handle

    def twin(self, page: PageData) -> Callable[[Request], Any]:
        """Return the handler of a page's JSON."""

        async def handle(request: Request) -> Response:
            query = dict(request.query_params) | request.path_params
            return JSONResponse(await run_in_threadpool(page, self._collector, query))

        return handle

    async def live(self, _request: Request) -> Response:
        """Stream the figures of the first row."""
        if self._collector.metrics.live_count >= LIVE_COUNT_MAX:
            return Response("too many live views\n", 503)
        return StreamingResponse(self._figures(), media_type="text/event-stream")

    async def _figures(self) -> AsyncIterator[str]:
        self._collector.metrics.live_count += 1
        try:
            while True:
                yield f"data: {json.dumps(pages.headline(self._collector))}\n\n"
                await asyncio.sleep(LIVE_INTERVAL_S)
        finally:
            self._collector.metrics.live_count -= 1

    async def event_lines(self, request: Request) -> Response:
        """Return the events as JSON lines."""
        after, lane = (request.query_params.get(one, "") for one in ("after", "lane"))
        text = await run_in_threadpool(pages.event_lines, self._collector, after, lane)
        started = {STARTED_HEADER: str(self._collector.started_ms)}
        return Response(text, media_type="application/jsonl", headers=started)

    async def ask_action(self, request: Request) -> Response:
        """Return the page that names the consequence of an action and asks."""
        action = self._action(request)
        subject = request.query_params.get("subject", "")
        check_subject(action, subject)
        return self._action_page(request, action, subject)

    async def run_action(self, request: Request) -> Response:
        """Run an action."""
        action = self._action(request)
        origin = request.headers.get("origin", "")
        if urlsplit(origin).netloc != request.headers.get("host", ""):
            raise HTTPException(403, "the request does not come from a page of this console")
        form = await _form(request)
        if not hmac.compare_digest(form.get("token", "").encode(), self._token.encode()):
            raise HTTPException(403, "the page is from another run of the console: load it again")
        subject, choice = form.get("subject", ""), form.get("choice", "")
        check_subject(action, subject)
        check_choice(action, choice)
        command = action.command_for(subject, choice)
        LOG.info("console.action", "action: %(command)s", command=command)
        chosen = [choice] if choice else []
        done = await run_in_threadpool(action.run, self._collector, subject, *chosen)
        return self._action_page(request, action, subject, choice, done)

    async def failed(self, request: Request, error: Exception) -> Response:
        """Return the answer for an error."""
        status, text, command = _status_of(error)
        if request.url.path.startswith("/api/"):
            return failure(status, text)
        if request.url.path.endswith((".json", ".jsonl")):
            return JSONResponse({"error": text, "status": status, "next": command}, status)
        data = {"title": "Not found" if status == 404 else "This did not work", "cli": command}
        return await run_in_threadpool(
            self._html, request, "error", data | {"error": text, "status": status}, status
        )

    # -------------------------------------------------------------- private

    def _action(self, request: Request) -> Action:
        if not self._allow_actions:
            raise HTTPException(403, "this console is read-only: start it with --allow-actions")
        action = ACTIONS.get(request.path_params["name"])
        if action is None:
            raise HTTPException(404, "there is no such action")
        return action

    def _action_page(
        self, request: Request, action: Action, subject: str, choice: str = "", done: str = ""
    ) -> Response:
        data = {
            "title": action.title,
            "cli": action.command_for(subject, choice),
            "action": action,
            "subject": subject,
            "token": self._token,
            "done": done,
        }
        return self._html(request, "action", data, 200)

    def _rendered(self, template: str, page: PageData, request: Request) -> Response:
        query = dict(request.query_params) | request.path_params
        return self._html(request, template, page(self._collector, query), 200)

    def _html(self, request: Request, template: str, data: dict[str, Any], status: int) -> Response:
        path = request.url.path
        query = f"?{request.url.query}" if request.url.query else ""
        twin = ("/index.json" if path == "/" else f"{path}.json") + query
        text = self._templates.get_template(f"{template}.html").render(
            data,
            data_state=data.get("state", ""),
            path=path,
            twin="" if template in ("action", "error") else twin,
            notice=self._collector.notice,
        )
        return HTMLResponse(text, status)


async def _form(request: Request) -> dict[str, str]:
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_SIZE_MAX:
                raise HTTPException(413, "the form is too large")
    except ClientDisconnect as error:
        raise HTTPException(400, "the form is incomplete") from error
    return dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=8))


_ANSWERS: Final[tuple[tuple[type[ZbkError], int, str], ...]] = (  # the first that fits
    (NoSuchLedgerError, 404, "zbk ledger ls"),
    (pages.NoSuchBookieError, 404, "zbk bookie ls"),
    (InvalidOptionError, 400, "zbk status"),
    (UnavailableError, 503, "zbk doctor"),
    (ZbkError, 409, "zbk status"),
)


def _status_of(error: Exception) -> tuple[int, str, str]:
    """Return the status of an error, its text, and the next command."""
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail), "zbk status"
    for kind, status, command in _ANSWERS:
        if isinstance(error, kind):
            return status, str(error), command
    return 500, "an error of zbk: see the log of the console", "zbk debug bundle"
