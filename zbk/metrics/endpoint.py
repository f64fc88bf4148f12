"""The HTTP endpoint of one process: ``/metrics``, ``/livez``, ``/readyz``, ``/version``.

A process opens its endpoint before it starts its parts, so that a probe sees a long start. A part
that has started is *attached*, with its source and its checks, until it ends. Until the first part
is attached the process is alive and not ready.

Default address: ``auto`` is loopback, at a port that the process prefers (a bookie: the port it
listens on, plus 6000). If another process has that port, ``auto`` takes any free one: no process
fails to start because of an address that its operator did not choose. An address that the operator
gave is an error if it is taken.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from zbk.config.http_address import AUTO, OFF, parse_http
from zbk.errors import InvalidOptionError
from zbk.metrics.build import build_fields
from zbk.metrics.checks import Check, CheckSource, is_passed, page
from zbk.metrics.collector import TableCollector
from zbk.metrics.http_server import HttpServer, Request, Response
from zbk.metrics.metric import Process
from zbk.metrics.samples import Samples, Source
from zbk.metrics.table import metrics_of

LOOPBACK: Final = "127.0.0.1"
ANY_HOSTS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened at
ROUTES: Final = ("/metrics", "/livez", "/readyz", "/version")

LOG = logging.getLogger("zbk.metrics")


class Endpoint:
    """The parts of a process as HTTP clients see them. Any thread may attach and detach."""

    def __init__(self, version: str, *processes: Process) -> None:
        """``processes``: what runs in this process, the main part first."""
        self._process = processes[0]
        self._version = version
        self._sources: dict[str, Source] = {"the build": self._read_build}
        self._checks: dict[str, CheckSource] = {}
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(TableCollector(metrics_of(*processes), self._sources))
        ProcessCollector(registry=self.registry)

    def attach(self, name: str, source: Source, checks: CheckSource) -> Callable[[], None]:
        """Add a part that has started; return the function that removes it."""
        self._sources[name] = source
        self._checks[name] = checks

        def detach() -> None:
            self._sources.pop(name, None)
            self._checks.pop(name, None)

        return detach

    def respond(self, request: Request) -> Response:
        """Return the answer to a request."""
        match request.path:
            case "/metrics":
                encode, content_type = choose_encoder(request.accept)
                return Response(200, encode(self.registry), content_type)
            case "/livez":
                return self._health("livez", [Check("http", is_ok=True)], request)
            case "/readyz":
                return self._health("readyz", self._ready(), request)
            case "/version":
                body = json.dumps(self._fields()) + "\n"
                return Response(200, body.encode(), "application/json")
            case "/":
                return Response(200, "".join(f"{one}\n" for one in ROUTES).encode())
            case _:
                return Response(404, f"there is {', '.join(ROUTES)}\n".encode())

    def _ready(self) -> list[Check]:
        found = list(self._checks.values())
        started = Check("started", is_ok=bool(found), detail="" if found else "not yet")
        return [started, *(check for checks in found for check in checks())]

    def _health(self, title: str, checks: Sequence[Check], request: Request) -> Response:
        is_verbose = "verbose" in request.query.split("&")
        text = page(title, checks, is_verbose=is_verbose)
        return Response(200 if is_passed(checks) else 503, text.encode())

    def _fields(self) -> dict[str, str]:
        return build_fields(self._process, self._version)

    def _read_build(self, samples: Samples) -> None:
        samples.put_info("zbk_build_info", self._fields())


@contextmanager
def serving(
    endpoint: Endpoint, option: str, preferred_port: int, public_host: str = ""
) -> Iterator[str]:
    """Serve an endpoint until the block ends; yield its URL, or "" if ``option`` is off.

    ``public_host`` stands in the URL if the endpoint listens at all addresses of the machine.

    Raises:
        InvalidOptionError: the address is malformed, or cannot be bound.
    """
    server = _server(endpoint, option, preferred_port)
    if server is None:
        yield ""
        return
    host = public_host if public_host and server.host in ANY_HOSTS else server.host
    host = f"[{host}]" if ":" in host else host
    url = f"http://{host}:{server.port}"
    LOG.info("metrics and health at %s", url, extra={"event": "http.serving", "url": url})
    server.start()
    try:
        yield url
    finally:
        server.stop()


def _server(endpoint: Endpoint, option: str, preferred_port: int) -> HttpServer | None:
    if option == OFF:
        return None
    if option != AUTO:
        host, port = parse_http(option)
        return HttpServer(host, port, endpoint.respond)
    try:
        return HttpServer(LOOPBACK, preferred_port, endpoint.respond)
    except InvalidOptionError as error:
        LOG.info("another port is taken: %s", error)
        return HttpServer(LOOPBACK, 0, endpoint.respond)
