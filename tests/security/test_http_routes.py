"""Every route of every process that serves HTTP, asked by those who may not, and with garbage."""

import http.client
import json
from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.support.http import TIMEOUT_S
from tests.support.http_processes import (
    BOOKIES,
    BY_PATH,
    CONSOLES,
    DOCUMENT,
    METHODS,
    OPEN,
    REST,
    TOKEN,
    Served,
    http_processes,
)
from zbk.admin.operation import Operation
from zbk.admin.operations import OPERATIONS
from zbk.metadata.dumps.export import nodes_of
from zbk.metadata.paths import AUDITOR_STATUS
from zbk.metadata.stores.connect import open_store

NAMES = [*(row[0] for row in BOOKIES), "autorecovery", *(row[0] for row in CONSOLES)]
ON_LOOPBACK = [one for one in NAMES if "network" not in one]
WITH_TOKEN = [one for one in NAMES if "token" in one and "without" not in one]
HOSTS = ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example")
GARBAGE = (
    "-1", str(2**63), "../x", "..%2fx", "%00", "%ff%fe", "..%2f..%2fetc%2fpasswd", "%C2%B2", "0x1",
)  # fmt: skip
"""Texts that are no id of a ledger and no name, as a URL has them."""

NAMES_OF_NO_BOOKIE = (str(2**63), "0x1")
"""Those that a bookie could have."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def processes(home: Path) -> Iterator[dict[str, Served]]:
    with http_processes(home) as made:
        yield made


@pytest.fixture
def served(
    home: Path, processes: dict[str, Served], request: pytest.FixtureRequest
) -> Iterator[Served]:
    """A process; what it is asked changes nothing of the metadata."""
    before = lasting(home)
    yield processes[request.param]
    assert lasting(home) == before


def lasting(home: Path) -> dict[str, bytes]:
    store = open_store(f"sqlite://{home}/metadata.db")
    try:
        found = {one.path: one.value for one in nodes_of(store)}
    finally:
        store.close()
    found.pop(AUDITOR_STATUS, None)  # the auditor tells how it is from time to time
    return found


def status(
    served: Served, method: str, target: str, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Return the status of an answer, and its body if it is short: a stream has no end."""
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=TIMEOUT_S)
    try:
        connection.request(method, target, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read() if answer.status >= 400 else b""
    finally:
        connection.close()


def target(path: str) -> str:
    """Return the path of a request to a route."""
    for name, value in (("{bookie_id}", "b"), ("{ledger_id}", "5"), ("{name}", "gc")):
        path = path.replace(name, value)
    return path.replace("{rest:path}", "v1/none")


def expected(served: Served, path: str, method: str) -> set[int]:
    """Return the statuses that an answer to a request without a token may have."""
    read = method in ("GET", "HEAD")
    if path == DOCUMENT and method in ("PUT", "POST", "DELETE"):
        path = REST
    if path in BY_PATH or path == DOCUMENT:
        return expected_of_api(served, path, "GET" if read else method)
    if path == REST:
        return {404} if read or method in ("PUT", "POST", "DELETE") else {405}
    if path == "/actions/{name}":
        is_refused = method == "POST" or (read and not served.has_actions)
        return {403} if is_refused else {400} if read else {405}
    if not read:
        return {405}
    assert path in OPEN or served.is_console, "no process has other pages"
    return {200, 503} if path == "/readyz" else {404} if "{" in path else {200}


def expected_of_api(served: Served, path: str, method: str) -> set[int]:
    operation = BY_PATH.get(path, {}).get(method)
    if operation is None and not (path == DOCUMENT and method == "GET"):
        return {405}
    if served.refusal:
        return {served.refusal}
    if operation is not None and operation.is_action:
        assert not served.has_actions, "on loopback, without a token"
        return {403}
    return {200, 400, 404}


@pytest.mark.parametrize("served", NAMES, indirect=True)
def test_without_a_token_each_route_is_as_configured(served: Served) -> None:
    paths = served.paths()
    assert set(paths) >= (set(BY_PATH) | {DOCUMENT, REST} if served.has_api else {"/metrics"})
    if not served.has_api:
        assert not [one for one in paths if one.startswith("/api")]

    wrong = []
    for path in paths:
        for method in METHODS:
            found, _body = status(served, method, target(path))
            if found not in expected(served, path, method):
                wrong.append((method, path, found))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("served", WITH_TOKEN, indirect=True)
@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xff"]
)
def test_a_wrong_token_is_none(served: Served, given: str) -> None:
    for one in OPERATIONS:
        found, _body = status(served, one.method, one.path, {"Authorization": given})
        assert found == 401, one.path


@pytest.mark.parametrize("served", ON_LOOPBACK, indirect=True)
def test_a_foreign_name_in_host_is_refused_on_each_route(served: Served) -> None:
    """Also with the token: a browser that another site directs here may send what it has."""
    hosts = cycle(HOSTS)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path in served.paths():
        for method in METHODS:
            for host in (next(hosts), next(hosts)):
                found, body = status(served, method, target(path), headers | {"Host": host})
                assert found == 421, (method, path, host)
                assert method == "HEAD" or b"another server" in body


def with_valid(operation: Operation, name: str, value: str) -> str:
    """Return a query with one value, and with plausible ones for what else is required."""
    plausible = {"integer": "0", "boolean": "true", "option": "1"}
    others = {
        one.name: one.choices[-1] if one.choices else plausible.get(one.kind, "a")
        for one in operation.parameters
        if one.is_required and one.name != name
    }
    return "&".join([*(f"{key}={quote(text)}" for key, text in others.items()), f"{name}={value}"])


@pytest.mark.parametrize("served", WITH_TOKEN, indirect=True)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_each_parameter_of_each_operation_is_an_error(
    served: Served, garbage: str
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    wrong = []
    for operation in OPERATIONS:
        for one in operation.parameters:
            query = with_valid(operation, one.name, garbage)
            found, body = status(served, operation.method, f"{operation.path}?{query}", headers)
            is_right = 400 <= found < 500 and bool(json.loads(body)["error"])
            if one.kind == "bookie" and garbage in NAMES_OF_NO_BOOKIE:
                is_right |= found == 200 or b"is not registered" in body
            if not is_right:
                wrong.append((operation.path, query, found, body))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    "served", [row[0] for row in CONSOLES if row[3].get("has_actions")], indirect=True
)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_the_path_of_a_page_is_an_error(served: Served, garbage: str) -> None:
    for before in ("/ledgers/", "/bookies/", "/actions/", "/static/", "/api/", "/api/v1/"):
        for after in ("", ".json", "/.."):
            found, body = status(served, "GET", f"{before}{garbage}{after}")
            assert 400 <= found < 500, (before, after, found)
            assert b"Traceback" not in body
    for action in ("recover", "delete", "gc", "scrub", "readonly"):
        is_name = action not in ("recover", "delete") and garbage in NAMES_OF_NO_BOOKIE
        found, _body = status(served, "GET", f"/actions/{action}?subject={garbage}")
        assert found == (200 if is_name else 400), action
