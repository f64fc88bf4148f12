"""The routes of a process's endpoint: ``/metrics``, ``/livez``, ``/readyz``, ``/version``.

Their functions read plain values and never wait, so they run in the thread of the server.
"""

from collections.abc import Callable, Sequence

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from zbk.metrics.checks import Check, is_passed, page
from zbk.metrics.endpoint import Endpoint
from zbk.system.clock import wall_ms


def app_of(endpoint: Endpoint, more_routes: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application of a process: its endpoint, and routes beside it."""
    own = routes(endpoint)
    paths = "".join(f"{one.path}\n" for one in [*own, *more_routes] if isinstance(one, Route))

    async def index(_request: Request) -> Response:
        return PlainTextResponse(paths)

    async def not_found(_request: Request, _error: Exception) -> Response:
        return PlainTextResponse(f"there is {', '.join(one.path for one in own)}\n", 404)

    index_route = [] if any(_is_index(one) for one in more_routes) else [Route("/", index)]
    return Starlette(routes=[*own, *index_route, *more_routes], exception_handlers={404: not_found})


def routes(endpoint: Endpoint) -> list[Route]:
    """Return the routes of an endpoint."""

    async def metrics(request: Request) -> Response:
        encode, content_type = _encoder(request.headers.get("accept", ""))
        return Response(encode(endpoint.registry), media_type=content_type)

    async def livez(request: Request) -> Response:
        return _health("livez", [Check("http", is_ok=True)], request)

    async def readyz(request: Request) -> Response:
        return _health("readyz", endpoint.ready_checks(), request)

    async def version(_request: Request) -> Response:
        cluster_id = endpoint.cluster_id()
        cluster = {"cluster": cluster_id} if cluster_id else {}
        return JSONResponse(endpoint.version_fields() | cluster | {"time_ms": wall_ms()})

    return [
        Route("/metrics", metrics),
        Route("/livez", livez),
        Route("/readyz", readyz),
        Route("/version", version),
    ]


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # it asks for a version that is none
        return choose_encoder("")


def _health(title: str, checks: Sequence[Check], request: Request) -> Response:
    text = page(title, checks, is_verbose="verbose" in request.query_params)
    return PlainTextResponse(text, 200 if is_passed(checks) else 503)


def _is_index(route: BaseRoute) -> bool:
    return isinstance(route, Route) and route.path == "/"
