"""Processes of zbk that serve HTTP, one for each way to configure it, and the routes of each."""

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from starlette.applications import Starlette
from starlette.routing import Route

from tests.support.cluster import Shell
from tests.support.http import ask, url_in
from zbk.admin.operation import Operation
from zbk.admin.operations import OPERATIONS
from zbk.console.app import make_app
from zbk.console.collector import Collector

TOKEN: Final = "0123456789abcdef"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")

HEALTH: Final = ("/metrics", "/livez", "/readyz", "/version")
"""Paths that need no token anywhere: probes and Prometheus read them."""

OPEN: Final = {*HEALTH, "/", "/heartbeat"}
REST: Final = "/api/{rest:path}"
DOCUMENT: Final = "/api/v1/openapi.json"

BY_PATH: Final[dict[str, dict[str, Operation]]] = {}
for _one in OPERATIONS:
    BY_PATH.setdefault(_one.path, {})[_one.method] = _one


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A process that serves HTTP. ``refusal`` is the status of calls that need what is missing."""

    name: str
    url: str
    has_api: bool = False
    is_console: bool = False
    has_token: bool = False
    has_actions: bool = False
    is_loopback: bool = True

    @property
    def refusal(self) -> int | None:
        """The status of each call of the admin API without a token; None: reading is open."""
        if self.has_token:
            return 401
        return None if self.is_loopback else 403

    def paths(self) -> list[str]:
        """Return the paths of all routes, with the names of their parameters in braces."""
        if self.is_console:
            app = cast("Any", make_app(cast("Collector", None)))._app
            pages = [one.path for one in cast("Starlette", app).routes if isinstance(one, Route)]
            found = [*pages, *HEALTH, "/heartbeat", DOCUMENT, *BY_PATH, REST]
        else:
            found = ask(f"{self.url}/").body.split()
        return sorted({"/", *found})


@contextmanager
def http_processes(home: Path) -> Iterator[dict[str, Served]]:
    """Start one bookie of a cluster, autorecovery and consoles, as commands."""
    (home / "token").write_text(TOKEN)
    shell = Shell(home, {"ZBK_METADATA": f"sqlite://{home}/metadata.db"})
    token = ("--http-token-file", str(home / "token"))
    with ExitStack() as stack:

        def start(name: str, *arguments: str, **facts: bool) -> None:
            process = stack.enter_context(running(shell, *arguments))
            lines = process.stderr if "console" not in arguments else process.stdout
            assert lines is not None
            texts = (line.decode() for line in iter(lines.readline, b""))
            word = '"url"' if "console" in arguments else "READY"
            line = next((one for one in texts if word in one), "")
            assert line, f"{name} did not start"
            url = json.loads(line)["url"] if "console" in arguments else url_in(line)
            made[name] = Served(name=name, url=local(url), **facts)

        made: dict[str, Served] = {}
        for number, (name, http, flags, facts) in enumerate(BOOKIES):
            folders = ("--journal-dir", f"b{number}/j", "--ledger-dir", f"b{number}/l")
            shell.run("bookie", "init", *folders)
            more = (*flags, *token) if facts.get("has_token") else flags
            start(
                name, "bookie", "run", *folders, "--listen", "tcp://127.0.0.1:0",
                "--http", http, *more, has_api=True, **facts,
            )  # fmt: skip
        start("autorecovery", "autorecovery", "run", "--http", "127.0.0.1:0")
        for name, http, flags, facts in CONSOLES:
            more = (*flags, *token) if facts.get("has_token") else flags
            start(
                name, "console", "-o", "json", "--http", http, *more,
                has_api=True, is_console=True, **facts,
            )  # fmt: skip
        yield made


_Row = tuple[str, str, tuple[str, ...], Mapping[str, bool]]
_ANYWHERE: Final = "0.0.0.0:0"
_LOOPBACK: Final = "127.0.0.1:0"

BOOKIES: Final[tuple[_Row, ...]] = (
    ("a bookie on loopback", _LOOPBACK, (), {}),
    (
        "a bookie on the network with a token",
        _ANYWHERE,
        ("--allow-actions",),
        {"has_token": True, "has_actions": True, "is_loopback": False},
    ),
    (
        "a bookie on the network without a token",
        _ANYWHERE,
        ("--allow-actions",),
        {"has_actions": True, "is_loopback": False},
    ),
)
CONSOLES: Final[tuple[_Row, ...]] = (
    ("a console on loopback", _LOOPBACK, (), {}),
    (
        "a console with actions and a token",
        _LOOPBACK,
        ("--allow-actions",),
        {"has_token": True, "has_actions": True},
    ),
    ("a console on the network", _ANYWHERE, (), {"is_loopback": False}),
)


def local(url: str) -> str:
    """Return a URL of this machine that reaches a server on all its addresses."""
    return f"http://127.0.0.1:{url.rpartition(':')[2].rstrip('/')}"


@contextmanager
def running(shell: Shell, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command until the block ends; it must end as it should."""
    with shell.start(*arguments) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            _output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
