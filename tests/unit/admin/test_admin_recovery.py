"""Autorecovery in the admin API: its switch, its tasks, and jobs that empty a bookie."""

import json
import threading
from typing import Any

import pytest

from tests.support.fake_client import BOOKIES
from tests.support.http import ask
from tests.support.served_api import Api
from tests.support.waiting import wait_until
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.underreplicated import MissingReason


def test_autorecovery_is_switched_and_its_tasks_are_listed(api: Api) -> None:
    path = "/api/v1/autorecovery/status"
    assert api.get(path) == {"enabled": True}
    assert api.ask("PUT", path, enabled="false").status == 200
    assert api.get(path) == {"enabled": False}
    tasks = UnderreplicationStore(api.store)
    tasks.report(4, ["b-1"], MissingReason.NOT_WRITTEN)
    tasks.report(5, ["b-2"], MissingReason.NOT_WRITTEN)

    def listed(**which: str) -> Any:  # noqa: ANN401 - JSON
        return api.get("/api/v1/autorecovery/list_under_replicated_ledger", **which)

    assert listed() == [4, 5]
    assert listed(missingreplica="b-1") == [4]
    assert listed(excludingmissingreplica="b-1") == [5]
    assert listed(missingreplica="b-9") == []
    path = "/api/v1/autorecovery/list_under_replicated_ledger"
    assert ask(f"{api.url}{path}?missingreplica=../b-1").status == 400


def test_the_missing_replicas_of_ledgers_are_listed_if_wanted(api: Api) -> None:
    tasks = UnderreplicationStore(api.store)
    tasks.report(4, ["b-2", "b-1"], MissingReason.NOT_WRITTEN)
    tasks.report(5, ["b-2"], MissingReason.NOT_WRITTEN)

    def listed(**which: str) -> Any:  # noqa: ANN401 - JSON
        path = "/api/v1/autorecovery/list_under_replicated_ledger"
        return api.get(path, printmissingreplica="true", **which)

    assert listed() == {"4": ["b-1", "b-2"], "5": ["b-2"]}
    assert listed(missingreplica="b-1") == {"4": ["b-1", "b-2"]}
    assert listed(excludingmissingreplica="b-2") == {}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"bookie_src": []},
        {"bookie_src": [1]},
        {"bookie_src": [""]},
        {"bookie_src": {"a": 1}},
        {"bookie_src": ["b"] * 17},
        {"bookie_src": ["b" * 300]},
        {"bookie_src": ["nobody"]},
        {"bookie_src": [BOOKIES[0], "../cookies"]},
        {"bookie_src": [BOOKIES[0]], "bookie_dest": [BOOKIES[1], BOOKIES[2]]},
        {"bookie_src": [BOOKIES[0]], "ledger_id": 1, "delete_cookie": True},
        {"bookie_src": [BOOKIES[0]], "grace_ms": -1},
        {"bookie_src": [BOOKIES[0]], "password": ["x"]},
    ],
)
def test_a_wrong_recovery_of_a_bookie_begins_no_job(api: Api, body: dict[str, object]) -> None:
    path = "/api/v1/autorecovery/bookie"
    refused = ask(api.url + path, "PUT", body=json.dumps(body).encode())
    assert refused.status == 400, refused.body
    assert api.get("/api/v1/zbk/job/list") == []


def test_a_bookie_is_decommissioned_by_a_job(api: Api) -> None:
    """As BookKeeper's clients ask: the truth value is a text."""
    is_begun, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        is_begun.set()
        assert may_end.wait(30)

    api.connection.on_registered = wait
    body = json.dumps({"bookie_src": BOOKIES[0], "delete_cookie": "true"}).encode()
    url = f"{api.url}/api/v1/autorecovery/decommission"
    begun = json.loads(ask(url, "PUT", body=body).body)
    assert is_begun.wait(30)
    second = json.loads(ask(url, "PUT", body=body).body)
    assert (begun["job_id"], second["job_id"], second["state"]) == (1, 1, "running")
    other = json.dumps({"bookie_src": BOOKIES[0], "grace_ms": 5}).encode()
    assert ask(url, "PUT", body=other).status == 400
    may_end.set()
    wait_until(lambda: api.get("/api/v1/zbk/job/list")[0]["state"] == "done")
    assert BookieRegistry(api.store).read_cookie(BOOKIES[0]) is None
