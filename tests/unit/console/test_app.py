"""Requests to a console: large clusters, garbage, foreign pages, a silent store."""

import http.client
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from click.testing import CliRunner

from tests.support.health import bookie_facts, cluster_facts
from tests.support.machine import patient_s
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.unit.console.conftest import LEDGER_COUNT, Site
from zbk.cli.main import cli
from zbk.cli.options import LEDGER_TYPES
from zbk.console.app import NAVIGATION
from zbk.console.history import Event
from zbk.health.bookie_scrape import BookieScrape
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise
from zbk.metadata.values import Cookie
from zbk.system.clock import monotonic_s

FORM = "application/x-www-form-urlencoded"


def ask(
    site: Site,
    path: str,
    method: str = "GET",
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=30)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def twin(site: Site, path: str) -> dict[str, Any]:
    status, text = ask(site, path)
    assert status == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize(
    "path",
    [
        *(path for path, _ in NAVIGATION),
        "/ledgers?from=999960", "/ledgers?from=500000&type=PD_JOURNAL", "/ledgers/999999",
        "/bookies/b-1999", "/bookies?page=20",
    ],
)  # fmt: skip
def test_a_page_of_a_large_cluster_loads_within_a_second(site: Site, path: str) -> None:
    store = site.collector.store
    ask(site, path)  # templates are compiled once
    listed, read = store.listed_count, store.read_count
    started_s = monotonic_s()
    status, text = ask(site, path)
    assert monotonic_s() - started_s < patient_s(1.0)
    assert status == 200
    assert len(text) < 200_000
    # one part of the tree, not all of it
    assert store.listed_count - listed <= 10_300
    assert store.read_count - read <= 250


def test_the_list_of_ledgers_continues_where_a_page_ends(site: Site) -> None:
    first = twin(site, "/ledgers.json?from=9990")
    assert [one["ledger_id"] for one in first["ledgers"]] == list(range(9_990, 10_040))
    assert first["next_id"] == 10_040
    assert first["cli"] == "zbk ledger ls --from 9990 --limit 50"
    last = twin(site, "/ledgers.json?from=999990")
    assert len(last["ledgers"]) == 10
    assert last["next_id"] is None


@pytest.mark.parametrize("short_name", LEDGER_TYPES)
def test_the_command_of_a_filtered_list_has_the_same_type(site: Site, short_name: str) -> None:
    command = twin(site, f"/ledgers.json?type={LEDGER_TYPES[short_name]}")["cli"]
    assert command.split()[3:5] == ["--type", short_name]


def test_a_filter_looks_at_a_bounded_number_of_ledgers(site: Site) -> None:
    found = twin(site, "/ledgers.json?custom=job%3Dnightly")
    assert [one["ledger_id"] for one in found["ledgers"][:2]] == [1, 3]
    none = twin(site, "/ledgers.json?state=CLOSED")
    assert (none["ledgers"], none["next_id"]) == ([], 200)


def test_the_missing_bookie_comes_first(site: Site) -> None:
    found = twin(site, "/bookies.json")
    assert (found["bookie_count"], found["page_count"]) == (2_001, 21)
    assert [one["state"] for one in found["bookies"][:3]] == ["missing", "read-only", "writable"]


def test_secrets_of_an_address_are_not_shown(site: Site) -> None:
    for path in ("/", "/index.json", "/config", "/config.json"):
        assert "secret-word" not in ask(site, path)[1]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ledgers/5?at=x", 400), ("/ledgers/5?at=99999999", 200),
        ("/ledgers/x", 400), ("/ledgers/-1", 400), ("/ledgers/" + "9" * 30, 400),
        (f"/ledgers/{LEDGER_COUNT}", 404), ("/ledgers?from=%00", 400), ("/ledgers?state=NO", 400),
        ("/ledgers?from=²", 400), ("/bookies/none", 404), ("/bookies?page=-3", 200),
        ("/bookies?page=99999999", 200), ("/nothing", 404), ("/static/../app.py", 404),
        ("/static/%2e%2e/app.py", 404), ("/actions/none", 404), ("/actions/gc?subject=../x", 400),
        ("/actions/delete?subject=x", 400), ("/ledgers/x.json", 400), ("/none.json", 404),
    ],
)  # fmt: skip
def test_garbage_gets_a_clear_answer(site: Site, path: str, status: int) -> None:
    found, text = ask(site, path.replace("²", "%C2%B2"))
    assert found == status, text
    assert "Traceback" not in text
    if path.endswith(".json"):
        assert json.loads(text)["error"]


def test_events_are_exported_as_json_lines_and_continued(site: Site) -> None:
    seen = site.collector.history.events
    seen.add(Event(at_ms=n, lane=f"b-{n % 2}", kind="lost", text='"\n') for n in range(4))
    status, text = ask(site, "/events.jsonl")
    assert status == 200
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(one["number"], one["lane"]) for one in lines] == [
        (1, "b-0"), (2, "b-1"), (3, "b-0"), (4, "b-1"),
    ]  # fmt: skip
    assert ask(site, "/events.jsonl?after=3&lane=b-1")[1].count("\n") == 1
    assert ask(site, "/events.jsonl?after=99999999999")[1] == ""
    assert [one["number"] for one in twin(site, "/events.json")["events"]] == [4, 3, 2, 1]
    for wrong in ("x", "-1", "9" * 40):
        status, text = ask(site, f"/events.jsonl?after={wrong}")
        assert (status, json.loads(text)["status"]) == (400, 400)


def test_older_ledgers_are_parts_of_the_page_of_durability(site: Site) -> None:
    newest = twin(site, "/durability.json")
    assert (newest["first_id"], newest["is_newest"]) == (LEDGER_COUNT - 40, True)
    older = twin(site, f"/durability.json?before={newest['next_before']}")
    assert [one["ledger_id"] for one in older["ledgers"]] == list(
        range(LEDGER_COUNT - 41, LEDGER_COUNT - 81, -1)
    )
    last = twin(site, "/durability.json?before=3")
    assert ([one["ledger_id"] for one in last["ledgers"]], last["next_before"]) == ([2, 1, 0], None)
    assert twin(site, "/durability.json?before=99999999")["is_newest"]
    assert ask(site, "/durability?before=x")[0] == 400


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((0, 0), "no entry of any ledger is at risk"),
        ((512, 1_024), "at most 1.5 KiB un-synced"),
        ((0, None), "no bound for all ledgers is known"),
    ],
)
def test_metrics_bound_what_is_at_risk_in_all_ledgers(
    site: Site, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int | None, ...], expected: str
) -> None:
    bookies = [
        bookie_facts(f"b-{n}", scraped=None if size is None else BookieScrape(0, 0, size, 0))
        for n, size in enumerate(sizes)
    ]
    monkeypatch.setattr(site.collector, "facts", cluster_facts(*bookies))
    assert expected in ask(site, "/durability")[1]


def test_ledgers_that_nobody_counted_are_not_shown_as_none(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tile() -> str:
        found = re.search(
            r"<b>([^<]*)</b><span><a href=./recovery.>ledgers lack", ask(site, "/")[1]
        )
        assert found is not None
        return found[1]

    monkeypatch.setattr(site.collector, "facts", cluster_facts(cookies=("b-1", "b-2", "b-9")))
    assert tile() == "?"
    assert "b-9" in twin(site, "/index.json")["incident"]["bookies"][0]["bookie_id"]
    monkeypatch.setattr(site.collector, "facts", cluster_facts())
    assert tile() != "?"


def test_what_a_client_gives_is_escaped(site: Site) -> None:
    for path in ("/events?lane=<script>", "/bookies/%3Cscript%3E", "/ledgers?custom=%3Cscript%3E"):
        assert "<script>" not in ask(site, path.replace("<script>", "%3Cscript%3E"))[1]


def test_a_silent_metadata_store_is_an_answer_with_the_next_command(site: Site) -> None:
    site.collector.is_silent = True
    try:
        for path in ("/ledgers", "/ledgers/3", "/durability", "/recovery", "/logs", "/datasets"):
            status, text = ask(site, path)
            assert status == 503
            assert "zbk doctor" in text
            assert json.loads(ask(site, f"{path}.json")[1])["status"] == 503
        assert ask(site, "/")[0] == 200
    finally:
        site.collector.is_silent = False


def test_before_the_first_look_no_page_says_what_nobody_knows(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.collector, "facts", None)
    for path in ("/", "/bookies", "/recovery", "/durability", "/events"):
        status, text = ask(site, path)
        assert status == 200
        assert "looks at the cluster for the first time" in text, path
    assert "<b>-</b><span>autorecovery" in ask(site, "/recovery")[1]
    head = twin(site, "/index.json")["headline"]
    assert (head["state"], head["underreplicated_count"]) == ("starting", None)


def token_in(site: Site, path: str = "/actions/delete?subject=5") -> str:
    _status, text = ask(site, path)
    found = re.search(r'name="token" value="([^"]+)"', text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("origin", "has_token", "why"),
    [
        ("https://evil.example", True, "does not come from a page of this console"),
        (None, True, "does not come from a page of this console"),
        ("own", False, "load it again"),
    ],
)
def test_an_action_of_a_foreign_page_is_refused(
    site: Site, origin: str | None, has_token: bool, why: str
) -> None:
    headers = {"Content-Type": FORM}
    if origin is not None:
        headers["Origin"] = site.url if origin == "own" else origin
    form = urlencode({"subject": "5", "token": token_in(site) if has_token else "guess"})
    status, text = ask(site, "/actions/delete", "POST", form, headers)
    assert status == 403
    assert why in text


@pytest.mark.parametrize("choice", ["on", "off", "", "maybe"])
def test_a_bookie_is_switched_to_read_only_and_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    store = MemoryStore(MemoryTree())
    registry = BookieRegistry(store)
    instance = initialise(store)
    registry.create_cookie(
        Cookie(bookie_id="b-1", instance_id=instance, journal_dirs=(), ledger_dirs=(), created_ms=1)
    )
    registry.switch_readonly("b-1", is_readonly=choice == "off")
    monkeypatch.setattr(site.collector, "store", store)
    token = token_in(site, "/actions/readonly?subject=b-1")
    form = urlencode({"subject": "b-1", "token": token, "choice": choice})
    headers = {"Content-Type": FORM, "Origin": site.url}
    status, text = ask(site, "/actions/readonly", "POST", form, headers)
    if choice in ("on", "off"):
        assert status == 200
        assert f"switch of bookie b-1 is {choice}" in text
        assert f"zbk bookie readonly b-1 {choice}<" in text
    else:
        assert status == 400
        assert "give one of on, off" in text
    assert registry.is_switched_readonly("b-1") is (choice == "on")


def test_a_choice_that_an_action_does_not_have_is_refused(site: Site) -> None:
    form = urlencode({"subject": "5", "token": token_in(site), "choice": "on"})
    headers = {"Content-Type": FORM, "Origin": site.url}
    assert ask(site, "/actions/delete", "POST", form, headers)[0] == 400


def test_a_large_form_is_refused(site: Site) -> None:
    headers = {"Content-Type": FORM, "Origin": site.url}
    assert ask(site, "/actions/delete", "POST", "x" * 5_000, headers)[0] == 413


def test_a_foreign_name_is_refused(site: Site) -> None:
    assert ask(site, "/", headers={"Host": "evil.example"})[0] == 421


def test_without_the_option_nothing_can_be_changed(site: Site) -> None:
    from zbk.console.app import make_app  # noqa: PLC0415 - a console of its own
    from zbk.http import serve  # noqa: PLC0415

    server = serve(make_app(site.collector), "127.0.0.1:0")
    try:
        readonly = Site(url=server.url, collector=site.collector)
        headers = {"Content-Type": FORM, "Origin": server.url}
        for method in ("GET", "POST"):
            status, text = ask(readonly, "/actions/delete?subject=5", method, None, headers)
            assert status == 403
            assert "--allow-actions" in text
        assert "/actions/" not in ask(readonly, "/ledgers/5")[1]
    finally:
        server.close()


def test_live_figures_come_as_events_until_the_client_leaves(site: Site) -> None:
    connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=30)
    connection.request("GET", "/live")
    answer = connection.getresponse()
    line = answer.fp.readline()
    while not line.startswith(b"data: "):  # the length of a chunk
        line = answer.fp.readline()
    assert json.loads(line.removeprefix(b"data: "))["bookie_count"] == 2_000
    connection.close()


def test_the_admin_api_is_served_beside_the_pages(site: Site) -> None:
    assert twin(site, "/api/v1/openapi.json")["openapi"]
    status, text = ask(site, "/api/v1/nothing")
    assert (status, json.loads(text)["code"]) == (404, 0)
    assert ask(site, "/api/v1/bookie/list_bookies", headers={"Host": "evil.example"})[0] == 421
    status, text = ask(site, "/api/v1/bookie/gc", "PUT", "x" * (2 << 20))
    assert status == 413


def test_actions_of_a_cluster_that_serves_no_http_are_refused() -> None:
    failed = CliRunner().invoke(cli, ["up", "--console", "off", "--http", "off", "--allow-actions"])
    assert failed.exit_code != 0
    assert "need an address" in str(failed.exception) + failed.output
