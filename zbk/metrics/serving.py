"""Serving the endpoint of a process at the address that its option ``http`` names.

Default address: ``auto`` is loopback, at a port that the process prefers (a bookie: the port it
listens on, plus 6000). If another process has that port, ``auto`` takes any free one: no process
fails to start because of an address that its operator did not choose. An address that the operator
gave is an error if it is taken.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from zbk.config.http_address import AUTO, OFF, parse_http
from zbk.errors import InvalidOptionError
from zbk.metrics.endpoint import Endpoint
from zbk.system.event_log import EventLog

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from zbk.http import HttpServer

LOOPBACK: Final = "127.0.0.1"
ANY_HOSTS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened at

MoreRoutes: TypeAlias = Callable[[str], Sequence["BaseRoute"]]
"""Receives the host to listen at, and returns routes to serve beside those of the endpoint."""

LOG = EventLog("zbk.metrics")


@contextmanager
def serving(
    endpoint: Endpoint,
    option: str,
    preferred_port: int,
    public_host: str = "",
    more_routes: MoreRoutes | None = None,
) -> Iterator[str]:
    """Serve an endpoint until the block ends; yield its URL, or "" if ``option`` is off.

    ``public_host`` stands in the URL if the endpoint listens at all addresses of the machine.
    ``more_routes`` returns what is served beside the endpoint's own routes.

    Raises:
        InvalidOptionError: the address is malformed, or cannot be bound.
    """
    if option == OFF:
        yield ""
        return
    server = _server(endpoint, option, preferred_port, more_routes)
    host = public_host if public_host and server.host in ANY_HOSTS else server.host
    host = f"[{host}]" if ":" in host else host
    url = f"http://{host}:{server.port}"
    LOG.info("http.serving", "metrics and health at %(url)s", url=url)
    try:
        yield url
    finally:
        server.close()


def _server(
    endpoint: Endpoint, option: str, preferred_port: int, more_routes: MoreRoutes | None
) -> "HttpServer":
    # A process that serves no HTTP does not load the server.
    from zbk.http import serve  # noqa: PLC0415
    from zbk.metrics.routes import app_of  # noqa: PLC0415

    host = LOOPBACK if option == AUTO else parse_http(option)[0]
    app = app_of(endpoint, more_routes(host) if more_routes else ())
    if option != AUTO:
        return serve(app, option)
    try:
        return serve(app, f"{LOOPBACK}:{preferred_port}")
    except InvalidOptionError as error:
        LOG.info("http.port_taken", "another port is taken: %(error)s", error=error)
        return serve(app, f"{LOOPBACK}:0")
