"""What is asked of the HTTP of autorecovery and consoles, with the answers of a busy machine."""

import json
import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from zbk.errors import InvalidOptionError
from zbk.health import endpoint_survey
from zbk.health.bookie_api import DOCUMENT_PATH, NoAnswer, ask_admin_apis
from zbk.health.endpoint_survey import ACTIONS_PATH, survey_endpoints
from zbk.health.security_health import ACTIONS, OPEN_API, SILENT, TOKENLESS, EndpointDoor
from zbk.system.listeners import Listener

URL, BEYOND = "http://127.0.0.1:8710", "192.0.2.7"
CONSOLE = ["/usr/bin/python3", "/usr/bin/zbk", "console"]
NO_ROUTE, REFUSED = NoAnswer("404: it has no such route"), NoAnswer("403: actions are off")
LATE = NoAnswer("its HTTP endpoint does not answer", is_silent=True)


class Served(NamedTuple):
    """A process that listens, and what it answers after some time."""

    process: str = "console"
    cluster: str = "c"
    host: str = "127.0.0.1"
    command: Sequence[str] = CONSOLE
    takes_s: float = 0.5
    document: object = None
    actions: object = REFUSED


@pytest.fixture
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Served:
    """One process of this machine; it answers with ``LATE`` who waits for less than it takes."""
    one: Served = request.param
    listener = Listener(host=one.host, port=8710, inode="1")

    def page(url: str, timeout_s: float, _size_max: int) -> bytes:
        assert url.endswith("/version")
        is_late = timeout_s < one.takes_s
        return b"" if is_late else json.dumps(one._asdict(), default=str).encode()

    def ask(
        urls: Mapping[str, str], path: str, _token: str = "", timeout_s: float = 1.0
    ) -> dict[str, object]:
        answer = {DOCUMENT_PATH: one.document, ACTIONS_PATH: one.actions}[path]
        return dict.fromkeys(urls, LATE if timeout_s < one.takes_s else answer)

    monkeypatch.setattr(endpoint_survey, "python_listeners", lambda: [(7, listener)])
    monkeypatch.setattr(endpoint_survey, "command_line", {7: one.command}.__getitem__)
    monkeypatch.setattr(endpoint_survey, "web_page", page)
    monkeypatch.setattr(endpoint_survey, "ask_admin_apis", ask)
    return one


def found(*urls: str) -> EndpointDoor:
    (door,) = survey_endpoints("c", urls, ["tcp://127.0.0.1:3181"])
    return door


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("served", [Served(takes_s=5.0, actions=NO_ROUTE)], indirect=True)
def test_a_console_that_takes_long_is_waited_for() -> None:
    assert found() == EndpointDoor(
        process="console", url=URL, is_local=True, state="", has_page_actions=True
    )


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    "served", [Served(takes_s=0.0, command=["/usr/bin/python3", "console.py"])], indirect=True
)
def test_other_programs_get_no_request() -> None:
    """A port of a Spark driver or of a debugger may fail at one."""
    assert survey_endpoints("c", [], []) == ()
    assert found(URL).url == URL


@pytest.mark.parametrize(
    ("served", "state"),
    [
        (Served(), ""),
        (Served(document={"x-zbk-has-actions": True}), ACTIONS),
        (Served(document=LATE), SILENT),
        (Served(actions=LATE), SILENT),
        (Served(document={"x-zbk-has-actions": True}, actions=LATE), ACTIONS),
        (Served(document=REFUSED), TOKENLESS),
        (Served(process="autorecovery", actions=LATE), ""),
        (Served(host=BEYOND), OPEN_API),
        (Served(host=BEYOND, document=LATE), ""),
    ],
    indirect=["served"],
)
def test_the_state_of_an_api_is_what_it_answers(served: Served, state: str) -> None:
    """Beyond loopback, what does not answer may be a firewall."""
    door = found()

    assert (door.process, door.state, door.has_page_actions) == (served.process, state, False)
    assert door.is_local == (served.host != BEYOND)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("served", [Served(cluster="another")], indirect=True)
def test_only_what_is_named_counts_of_another_cluster() -> None:
    assert survey_endpoints("c", [], []) == ()
    assert found(f"{URL}/").url == URL
    with pytest.raises(InvalidOptionError):
        survey_endpoints("c", ["ftp://127.0.0.1"], [])


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("served", [Served(process="bookie")], indirect=True)
def test_a_url_without_such_a_process_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no autorecovery and no console"):
        survey_endpoints("c", [URL], [])


def test_a_process_that_is_silent_is_told_from_a_port_where_none_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        urls = {"b": f"http://127.0.0.1:{port}"}
        assert ask_admin_apis(urls, DOCUMENT_PATH, timeout_s=0.05) == {"b": LATE}
    gone = ask_admin_apis(urls, DOCUMENT_PATH, timeout_s=5.0)["b"]
    assert isinstance(gone, NoAnswer)
    assert not gone.is_silent
