"""Requests to bookies go past a proxy of the environment."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zbk.health.bookie_api import ask_admin_apis
from zbk.health.web_page import web_page
from zbk.http import serve


async def answer(request: Request) -> Response:
    return JSONResponse(request.headers.get("authorization", ""))


@pytest.fixture
def url() -> Iterator[str]:
    server = serve(Starlette(routes=[Route("/{rest:path}", answer)]), "127.0.0.1:0")
    yield server.url
    server.close()


@pytest.fixture(autouse=True)
def proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # nothing listens there
    monkeypatch.delenv("no_proxy", raising=False)


def test_a_proxy_of_the_environment_is_not_asked(url: str) -> None:
    assert web_page(f"{url}/metrics", 20, 100) == b'""'
    assert ask_admin_apis({"b": url}, "/x", "word", 20) == {"b": "Bearer word"}
