"""The timeline of a console over HTTP, and ``zbk events``, which shows it."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from tests.unit.console.conftest import Site, StillCollector
from zbk.cli.main import cli
from zbk.console.app import make_app
from zbk.console.history import Event
from zbk.console.remote_timeline import RemoteTimeline
from zbk.errors import InvalidOptionError, UnavailableError
from zbk.http import serve


def happened(*texts: str, lane: str = "b-1") -> list[Event]:
    return [Event(at_ms=1_000, lane=lane, kind="lost", text=text) for text in texts]


@pytest.fixture
def console() -> Iterator[Site]:
    collector = StillCollector()
    server = serve(make_app(collector), "127.0.0.1:0")
    yield Site(url=server.url, collector=collector)
    server.close()


def texts(found: list[Event]) -> list[str]:
    return [one.text for one in found]


def test_each_event_is_returned_once(console: Site) -> None:
    events = console.collector.history.events
    events.add(happened("one", "two"))
    timeline = RemoteTimeline(console.url)
    assert texts(timeline.fresh()) == ["one", "two"]
    assert timeline.fresh() == []
    events.add(happened("three"))
    assert texts(timeline.fresh()) == ["three"]
    assert texts(RemoteTimeline(f"{console.url}/", after=2).fresh()) == ["three"]


def test_after_a_restart_of_the_console_its_events_are_new(console: Site) -> None:
    console.collector.history.events.add(happened("one", "two", "three"))
    timeline = RemoteTimeline(console.url)
    assert len(timeline.fresh()) == 3

    console.collector.history.events = type(console.collector.history.events)()
    console.collector.started_ms += 1
    console.collector.history.events.add(happened("anew"))

    assert texts(timeline.fresh()) == ["anew"]
    assert timeline.fresh() == []


@pytest.mark.parametrize(
    ("url", "error", "text"),
    [
        ("file:///etc/hostname", InvalidOptionError, "http://HOST:PORT"),
        ("http://127.0.0.1:1", UnavailableError, "does not answer: Connection refused"),
        ("OTHER/none", UnavailableError, "answers 404"),
    ],
)
def test_what_is_no_console_is_a_clear_error(
    console: Site, url: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        RemoteTimeline(url.replace("OTHER", console.url)).fresh()


def test_another_answer_is_no_timeline(console: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zbk.console.remote_timeline.PATH", "/index.json")
    with pytest.raises(UnavailableError, match="no console of zbk"):
        RemoteTimeline(console.url).fresh()


# ------------------------------------------------------------------ zbk events


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["events", *arguments])


def test_the_command_prints_the_timeline_and_its_lanes(console: Site) -> None:
    console.collector.history.events.add(happened("one"))
    console.collector.history.events.add(happened("two", lane="auditor"))

    table = run("--console", console.url).stdout.splitlines()
    assert table[0].split() == ["TIME", "LANE", "KIND", "EVENT"]
    assert table[1].split() == ["1970-01-01T00:00:01.000Z", "b-1", "lost", "one"]
    assert len(table) == 3
    lines = run("--console", console.url, "--lane", "auditor", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["two"]
    lines = run("--console", console.url, "--after", "1", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [2]


def test_the_page_shows_the_command_that_prints_the_same(console: Site) -> None:
    from tests.unit.console.test_app import twin  # noqa: PLC0415 - of the tests of pages

    console.collector.history.events.add(happened("a", lane="it's"))
    console.collector.url = console.url
    assert twin(console, "/events.json")["cli"] == f"zbk events --console {console.url}"
    command = twin(console, "/events.json?lane=it%27s")["cli"]
    assert command == f"zbk events --console {console.url} --lane 'it'\"'\"'s'"


def test_without_any_console_the_command_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZBK_METADATA", "zk://127.0.0.1:1/zbk")
    result = run()
    assert result.exit_code == 1
    assert "give --console URL, or --follow" in result.stderr
