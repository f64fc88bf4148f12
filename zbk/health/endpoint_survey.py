"""The survey of the HTTP of autorecovery and consoles, which are in no record of the cluster.

Those of this machine are found by the addresses at which Python programs of this user listen, of
root's command by those of all users: a process of the cluster says so at ``/version``. Others are
given by their URLs. Bookies are found by their registrations.
"""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import urlsplit

import msgspec

from zbk.config.http_address import host_of, is_loopback
from zbk.conversion import convert
from zbk.errors import InvalidOptionError
from zbk.health.bookie_api import (
    DOCUMENT_PATH,
    THREAD_COUNT,
    TIMEOUT_S,
    NoAnswer,
    ask_admin_apis,
)
from zbk.health.security_health import ACTIONS, OPEN_API, TOKENLESS, EndpointDoor
from zbk.health.web_page import web_page
from zbk.system.listeners import Listener, python_listeners

PAGE_SIZE_MAX: Final = 4_096
PROCESSES: Final = ("autorecovery", "console")
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
    given = {_checked(url): not is_loopback(urlsplit(url).hostname or "") for url in urls}
    seen = _seen(bookies)
    asked = {url: url for url in [*given, *seen]}
    with ThreadPoolExecutor(THREAD_COUNT, "zbk-endpoints") as threads:
        versions = dict(zip(asked, threads.map(_version, asked), strict=True))
    for url in given:
        if versions[url] is None:
            raise InvalidOptionError("url", url, "no autorecovery and no console answers there")
    found = {
        url: version.process
        for url, version in versions.items()
        if version is not None and (url in given or version.cluster == cluster_id)
    }
    answers = ask_admin_apis({url: url for url in found}, DOCUMENT_PATH)
    pages = ask_admin_apis(
        {url: url for url, process in found.items() if process == "console"}, ACTIONS_PATH
    )
    return tuple(
        _door(url, process, answers[url], pages.get(url), is_local=not (given | seen)[url])
        for url, process in sorted(found.items())
    )


def api_state(answer: object, *, is_local: bool) -> str:
    """Return what an admin API, asked for its document without a token, lets others do."""
    if isinstance(answer, NoAnswer):  # 403: it listens beyond loopback, whatever its URL says
        return TOKENLESS if answer.why.startswith("403:") else ""
    if not is_local:
        return OPEN_API
    has_actions = isinstance(answer, Mapping) and answer.get("x-zbk-has-actions") is True
    return ACTIONS if has_actions else ""


def _door(url: str, process: str, answer: object, page: object, *, is_local: bool) -> EndpointDoor:
    return EndpointDoor(
        process=process,
        url=url,
        is_local=is_local,
        state=api_state(answer, is_local=is_local),
        has_page_actions=isinstance(page, NoAnswer) and page.why.startswith("404:"),
    )


def _seen(bookies: Iterable[str]) -> dict[str, bool]:
    """Return the URLs of what listens on this machine, and whether others reach it."""
    taken = {(host_of(one), one.rpartition(":")[2]) for one in bookies}
    return {
        _url(one): not is_loopback(one.host)
        for _pid, one in python_listeners()
        if (one.host, str(one.port)) not in taken
    }


def _url(one: Listener) -> str:
    return f"http://[{one.host}]:{one.port}" if ":" in one.host else f"http://{one.host}:{one.port}"


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidOptionError("url", url, "give a URL such as http://autorecovery1:9180")
    return url.rstrip("/")


def _version(url: str) -> _Version | None:
    try:
        found = convert(json.loads(web_page(f"{url}/version", TIMEOUT_S, PAGE_SIZE_MAX)), _Version)
    except (ValueError, RecursionError):  # other programs answer otherwise
        return None
    return found if found.process in PROCESSES else None
