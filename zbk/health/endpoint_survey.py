"""The survey of the HTTP of autorecovery and consoles, which are in no record of the cluster.

Those of this machine are found by the command lines of this user's processes, of root's command by
those of all users, and by the addresses where they listen: a process of the cluster says so at
``/version``. Others are given by their URLs. Bookies are found by their registrations.

Other programs get no request: one whose port expects something else may fail at it.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit

import msgspec

from zbk.config.http_address import host_of, is_loopback
from zbk.conversion import convert
from zbk.errors import InvalidOptionError
from zbk.health.bookie_api import (
    DOCUMENT_PATH,
    PATIENCE_S,
    THREAD_COUNT,
    NoAnswer,
    ask_admin_apis,
)
from zbk.health.security_health import ACTIONS, OPEN_API, SILENT, TOKENLESS, EndpointDoor
from zbk.health.web_page import web_page
from zbk.system.listeners import Listener, command_line, python_listeners

PAGE_SIZE_MAX: Final = 4_096
PROCESSES: Final = ("autorecovery", "console")
COMMANDS: Final = frozenset({*PROCESSES, "up"})
"""Commands of zbk that serve HTTP beside bookies."""

PROGRAM_AT_MAX: Final = 4
"""Where ``zbk`` is in a command line at the latest, as in ``python -u -m zbk``."""

ACTIONS_PATH: Final = "/actions/none"
"""404 at a console with actions; 403 at one without."""


class _Version(msgspec.Struct):
    """What ``/version`` says; other fields are ignored."""

    process: str
    cluster: str = ""


def survey_endpoints(
    cluster_id: str, urls: Iterable[str], bookies: Iterable[str]
) -> tuple[EndpointDoor, ...]:
    """Return the HTTP of autorecovery and consoles of a cluster.

    Those at ``urls``, and those of this machine that can be seen. ``bookies`` are the addresses of
    bookies, which are not asked.

    Raises:
        InvalidOptionError: one of the URLs is none, or no such process answers there.
    """
    given = [_checked(url) for url in urls]
    is_local = {url: is_loopback(urlsplit(url).hostname or "") for url in given}
    is_local |= {_url(one): is_loopback(one.host) for one in _seen(bookies)}
    pages = _pages(is_local)
    versions = {url: version for url, page in pages.items() if (version := _version_in(page))}
    for url in given:
        if url not in versions:
            raise InvalidOptionError("url", url, "no autorecovery and no console answers there")
    found = {
        url: version.process
        for url, version in sorted(versions.items())
        if url in given or version.cluster == cluster_id
    }
    answers = ask_admin_apis({url: url for url in found}, DOCUMENT_PATH, timeout_s=PATIENCE_S)
    consoles = {url: url for url, process in found.items() if process == "console"}
    actions = ask_admin_apis(consoles, ACTIONS_PATH, timeout_s=PATIENCE_S)
    return tuple(
        EndpointDoor(
            process=process,
            url=url,
            is_local=is_local[url],
            state=api_state(answers[url], is_local=is_local[url]) or _page_state(actions.get(url)),
            has_page_actions=_has_actions(actions.get(url)),
        )
        for url, process in found.items()
    )


def serves_http(command: Sequence[str]) -> bool:
    """Return whether a command line starts a process of zbk that serves HTTP and is no bookie.

    >>> serves_http(["/usr/bin/python3", "/usr/bin/zbk", "--key", "k", "console"])
    True
    >>> serves_http(["python3", "-m", "zbk", "bookie", "run"]), serves_http(["python3", "console"])
    (False, False)
    """
    names = [PurePath(one).name for one in command]
    program = names.index("zbk") if "zbk" in names[: PROGRAM_AT_MAX + 1] else len(names)
    return not COMMANDS.isdisjoint(names[program + 1 :])


def api_state(answer: object, *, is_local: bool) -> str:
    """Return what an admin API, asked for its document without a token, lets others do."""
    if isinstance(answer, NoAnswer):
        if answer.is_silent and is_local:  # beyond loopback, a firewall keeps others out as well
            return SILENT
        # 403: it listens beyond loopback, whatever its URL says
        return TOKENLESS if answer.why.startswith("403:") else ""
    if not is_local:
        return OPEN_API
    has_actions = isinstance(answer, Mapping) and answer.get("x-zbk-has-actions") is True
    return ACTIONS if has_actions else ""


def _has_actions(page: object) -> bool:
    return isinstance(page, NoAnswer) and page.why.startswith("404:")


def _page_state(page: object) -> str:
    return SILENT if isinstance(page, NoAnswer) and page.is_silent else ""


def _seen(bookies: Iterable[str]) -> Iterator[Listener]:
    """Yield where processes of zbk listen on this machine, but for bookies."""
    taken = {(host_of(one), one.rpartition(":")[2]) for one in bookies}
    for pid, one in python_listeners():
        if (one.host, str(one.port)) not in taken and serves_http(command_line(pid)):
            yield one


def _url(one: Listener) -> str:
    return f"http://[{one.host}]:{one.port}" if ":" in one.host else f"http://{one.host}:{one.port}"


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidOptionError("url", url, "give a URL such as http://autorecovery1:9180")
    return url.rstrip("/")


def _pages(urls: Collection[str]) -> dict[str, bytes]:
    """Return what each of the URLs says of its version; nothing: it does not answer in time."""

    def page(url: str) -> bytes:
        return web_page(f"{url}/version", PATIENCE_S, PAGE_SIZE_MAX)

    with ThreadPoolExecutor(THREAD_COUNT, "zbk-endpoints") as threads:
        return dict(zip(urls, threads.map(page, urls), strict=True))


def _version_in(text: bytes) -> _Version | None:
    try:
        found = convert(json.loads(text), _Version)
    except (ValueError, RecursionError):  # other programs answer otherwise
        return None
    return found if found.process in PROCESSES else None
