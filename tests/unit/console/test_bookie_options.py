"""The options of running bookies: differences first, and a reason where there are none."""

import json
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.health import bookie_facts, cluster_facts
from zbk.config import BookieConfig
from zbk.console.bookie_options import PATH, SourcedValue, bookie_options, option_rows
from zbk.console.collector import Collector, metrics_page
from zbk.health.bookie_scrape import scrape_bookies
from zbk.http import serve

ANSWERS: dict[str, tuple[int, str]] = {
    "good": (
        200,
        json.dumps(
            {
                "rack": {"value": "r1", "source": "command line"},
                "token": {"value": "hush-hush", "source": "ZBK_BOOKIE_TOKEN"},
                "listen": {"value": "zk://u:pw@h", "source": "/etc/zbk.toml"},
            }
        ),
    ),
    "refused": (403, json.dumps({"code": 0, "error": "beyond loopback a token is needed"})),
    "old": (404, "there is /metrics"),
    "garbage": (200, "<html>"),
    "deep": (200, "[" * 100_000),
    "list": (200, "[1, 2]"),
    "values": (200, '{"rack": "r1"}'),
    "numbers": (200, '{"rack": {"value": 5, "source": "default"}}'),
    "huge": (200, '{"rack": {"value": "' + "x" * (1 << 20) + '", "source": ""}}'),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    async def answer(request: Request) -> Response:
        status, text = ANSWERS[request.path_params["kind"]]
        return Response(text, status)

    server = serve(Starlette(routes=[Route(f"/{{kind}}{PATH}", answer)]), "127.0.0.1:0")
    yield server.url
    server.close()


def shown(**urls: str) -> dict[str, Any]:
    bookies = [bookie_facts(name, http=one) for name, one in urls.items()]
    collector = SimpleNamespace(facts=cluster_facts(*bookies), bookie_token="")
    return bookie_options(cast("Collector", collector))


def test_options_of_bookies_are_shown_without_secrets(url: str) -> None:
    found = shown(a=f"{url}/good")
    values = {one["option"]: one["values"][0]["value"] for one in found["options"]}
    assert values == {"rack": "r1", "token": "[removed]", "listen": "zk://[removed]@h"}
    sources = {one["option"]: one["values"][0]["sources"] for one in found["options"]}
    assert sources["rack"] == ["command line"]
    assert found["silent"] == []


def test_options_of_autorecovery_in_a_bookie_have_their_own_defaults() -> None:
    name = "autorecovery.session_timeout_ms"
    (row,) = option_rows({"b": {name: SourcedValue("10000", "default")}})
    assert (row["default"], row["is_changed"]) == ("10000", False)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("refused", "403: beyond loopback a token is needed"),
        ("old", "404: it has no such route"),
        ("garbage", "its answer has no options"),
        ("deep", "its answer has no options"),
        ("list", "its answer has no options"),
        ("values", "its answer has no options"),
        ("numbers", "its answer has no options"),
        ("huge", "its answer has no options"),
    ],
)
def test_a_bookie_without_options_has_a_reason(url: str, kind: str, why: str) -> None:
    found = shown(a=f"{url}/{kind}", b=f"{url}/good")
    assert found["silent"] == [{"bookie_id": "a", "why": why}]
    assert len(found["options"]) == 3


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "it serves no HTTP"),
        ("file:///etc/passwd", "it serves no HTTP"),
        ("http://127.0.0.1:1", "its HTTP endpoint does not answer"),
        ("http://[", "its HTTP endpoint does not answer"),
    ],
)
def test_an_address_that_does_not_answer_is_a_reason(address: str, why: str) -> None:
    assert shown(a=address)["silent"] == [{"bookie_id": "a", "why": why}]


def test_a_port_that_speaks_no_http_is_a_reason_and_has_no_metrics() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def answer() -> None:
            for _ in range(3):
                with listening.accept()[0] as peer:
                    peer.recv(1_000)
                    peer.sendall(b"SSH-2.0\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert shown(a=address)["silent"][0]["why"] == "its HTTP endpoint does not answer"
        assert metrics_page(address) == ""
        assert scrape_bookies({"a": address}) == {}
        thread.join()


def test_without_bookies_there_is_nothing() -> None:
    found = bookie_options(cast("Collector", SimpleNamespace(facts=None, bookie_token="")))
    assert (found["options"], found["silent"], found["asked_count"]) == ([], [], 0)


def test_options_that_differ_come_first_then_those_that_were_changed() -> None:
    default = str(BookieConfig().rack)
    port = str(BookieConfig().listen)
    rows = option_rows(
        {
            "a": {
                "listen": SourcedValue(port, "default"),
                "http": SourcedValue("other", "command line"),
                "rack": SourcedValue("r1", "ZBK_BOOKIE_RACK"),
            },
            "b": {
                "listen": SourcedValue(port, "/etc/zbk.toml"),
                "http": SourcedValue("other", "command line"),
                "rack": SourcedValue(default, "default"),
            },
        }
    )
    assert [(one["option"], one["is_different"], one["is_changed"]) for one in rows] == [
        ("rack", True, True), ("http", False, True), ("listen", False, False),
    ]  # fmt: skip
    assert rows[0]["values"] == [
        {"value": "r1", "sources": ["ZBK_BOOKIE_RACK"], "bookies": ["a"]},
        {"value": default, "sources": ["default"], "bookies": ["b"]},
    ]
    assert [one["values"][0]["sources"] for one in rows[1:]] == [
        ["command line"], ["/etc/zbk.toml", "default"],
    ]  # fmt: skip
