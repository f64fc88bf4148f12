"""A running console: collector, app and server together; a context manager."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp

import zbk
from zbk.admin.access import Access, read_token
from zbk.admin.cluster import Cluster
from zbk.admin.routes import admin_routes
from zbk.config import NO_SECURITY, SecurityConfig
from zbk.config.http_address import AUTO, is_loopback, parse_http
from zbk.console.app import make_app
from zbk.console.collector import Collector
from zbk.errors import InvalidOptionError, MetadataUnavailableError
from zbk.http import HttpServer, serve
from zbk.metrics.endpoint import Endpoint
from zbk.metrics.routes import routes

PORT: Final = 8710
"""The port that ``auto`` prefers."""

FIRST_LOOK_S: Final = 5.0
"""Time that the first survey has before the URL is given out; later, pages say that it runs."""


@contextmanager
def running_console(
    metadata: str,
    http: str = AUTO,
    *,
    allow_actions: bool = False,
    token_file: Path | None = None,
    bookie_token_file: Path | None = None,
    hosts: tuple[str, ...] = (),
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    tables_source: str = "",
    security: SecurityConfig = NO_SECURITY,
) -> Iterator[str]:
    """Serve a console and the admin API until the block ends; yield the URL.

    The first look at the cluster has ended by then, unless the cluster is slow: ``FIRST_LOOK_S``.
    The same address serves ``/metrics``, ``/livez``, ``/readyz`` and ``/version`` of this process.

    The admin API requires the token in ``token_file``; without one, it serves only loopback. The
    console sends the token in ``bookie_token_file`` to the admin APIs of bookies. ``security`` has
    its key.

    Raises:
        InvalidOptionError: the address is malformed or taken, or others could act through it; the
            file has no token; or there is no cluster at ``metadata``.
    """
    is_local = http == AUTO or is_loopback(parse_http(http)[0])
    if allow_actions and not is_local:
        raise InvalidOptionError("http", http, "a console with --allow-actions listens on loopback")
    token = read_token(token_file) if token_file else ""
    access = Access(is_loopback=is_local, token=token, has_actions=allow_actions)
    bookie_token = read_token(bookie_token_file) if bookie_token_file else ""
    collector = Collector(metadata, bookie_token, security)
    endpoint = Endpoint(zbk.__version__, "console")
    endpoint.cluster_id = collector.cluster_id
    with closing(Cluster(metadata, security=security)) as cluster:
        app = make_app(
            collector,
            tables=tables,
            tables_source=tables_source,
            allow_actions=allow_actions,
            api=[*routes(endpoint), *admin_routes(cluster, access)],
        )
        server = _server(app, http, hosts)
        collector.url = server.url
        try:
            with suppress(MetadataUnavailableError):  # pages say so until it answers
                collector.connection()
            collector.start()
            endpoint.attach("console", collector.metrics.read, collector.metrics.checks)
            collector.wait_first_look(FIRST_LOOK_S)
            yield server.url
        finally:
            server.close()
            collector.stop()


def _server(app: ASGIApp, http: str, names: Collection[str]) -> HttpServer:
    if http != AUTO:
        return serve(app, http, names)
    try:
        return serve(app, f"127.0.0.1:{PORT}", names)
    except InvalidOptionError:  # taken: a free one
        return serve(app, "127.0.0.1:0", names)
