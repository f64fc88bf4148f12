"""The un-synced ledgers of a cluster, merged from what its bookies answer."""

import json
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from zbk.health.unsynced_ledgers import PATH, unsynced_in_cluster
from zbk.http import serve


def answer_of(*ledgers: tuple[int, int, int]) -> str:
    """The answer of a bookie with such ledgers: id, size, age."""
    named = [
        {"ledger_id": n, "unsynced_size": size, "entry_count": size // 10, "age_ms": age}
        for n, size, age in ledgers
    ]
    return json.dumps({"bookie_id": "b", "ledger_count": len(named), "ledgers": named})


ANSWERS = {
    "a": (200, answer_of((1, 100, 5), (2, 30, 900))),
    "b": (200, answer_of((2, 500, 10), (3, 40, 7))),
    "refused": (403, json.dumps({"code": 0, "error": "a token is needed"})),
    "garbage": (200, "<html>"),
    "wrong": (200, '{"ledger_count": 1, "ledgers": [{"ledger_id": "x"}]}'),
    "guarded": (200, answer_of((7, 1, 1))),
    "needs-none": (200, answer_of((8, 1, 1))),
    "many": (200, answer_of(*((n, 1, 1) for n in range(500)))),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    async def answer(request: Request) -> Response:
        kind = request.path_params["kind"]
        given = request.headers.get("authorization", "")
        if kind == "moved":
            return RedirectResponse(f"/needs-none{PATH}")
        if (kind == "guarded" and given != "Bearer hush") or (kind == "needs-none" and given):
            return Response(json.dumps({"error": "give the token"}), 401)
        status, text = ANSWERS[kind]
        return Response(text, status)

    server = serve(Starlette(routes=[Route(f"/{{kind}}{PATH}", answer)]), "127.0.0.1:0")
    yield server.url
    server.close()


def test_a_ledger_has_the_size_and_the_age_of_the_bookie_where_they_are_largest(url: str) -> None:
    found = unsynced_in_cluster({one: f"{url}/{one}" for one in ("a", "b")}, "size")
    shown = [(one.ledger_id, one.unsynced_size, one.age_ms) for one in found.ledgers]
    assert shown == [(2, 500, 900), (1, 100, 5), (3, 40, 7)]
    assert found.holders[2] == ["a", "b"]
    by_age = unsynced_in_cluster({one: f"{url}/{one}" for one in ("a", "b")}, "age", 2)
    assert [one.ledger_id for one in by_age.ledgers] == [2, 3]


def test_a_bookie_that_names_none_has_a_reason_and_hides_no_other(url: str) -> None:
    urls = {one: f"{url}/{one}" for one in ("a", "refused", "garbage", "wrong")} | {"off": ""}
    found = unsynced_in_cluster(urls, "size")
    assert [one.ledger_id for one in found.ledgers] == [1, 2]
    assert found.silent == {
        "refused": "403: a token is needed",
        "garbage": "its answer has no ledgers",
        "wrong": "its answer has no ledgers",
        "off": "it serves no HTTP",
    }


def test_a_bookie_that_names_too_many_is_cut(url: str) -> None:
    assert len(unsynced_in_cluster({"many": f"{url}/many"}, "size", 1_000).ledgers) == 100


def test_a_token_goes_to_the_registered_address_and_not_where_it_redirects(url: str) -> None:
    urls = {one: f"{url}/{one}" for one in ("guarded", "moved")}
    assert unsynced_in_cluster(urls, "size").silent == {"guarded": "401: give the token"}
    found = unsynced_in_cluster(urls, "size", token="hush")
    assert ([one.ledger_id for one in found.ledgers], found.silent) == ([7, 8], {})
