"""The admin API over real HTTP: its document, its parameters and its errors."""

import json
from pathlib import Path
from typing import cast

import pytest
from starlette.routing import Route

from tests.support.fake_client import BOOKIES
from tests.support.http import ask
from tests.support.json_schema import check_answer
from tests.support.served_api import Api
from zbk.admin.access import Access
from zbk.admin.openapi import PATH, document
from zbk.admin.operation import SECRET_HEADER, Operation
from zbk.admin.operations import OPERATIONS
from zbk.admin.routes import admin_routes
from zbk.client.api import Client
from zbk.client.dataset.datasets import DataSets
from zbk.errors import (
    BadVersionError,
    CorruptRecordError,
    DataSetConflictError,
    InvalidOptionError,
    LedgerClosedError,
    MetadataUnavailableError,
    NoSuchVersionError,
    RequestTimeoutError,
    UnauthorizedError,
    ZbkError,
)
from zbk.metadata.records.instance import initialise
from zbk.metadata.stores.connect import open_store

# ------------------------------------------------------------------ the document


def test_the_document_has_the_routes_that_are_mounted(api: Api) -> None:
    served = api.get(PATH)
    assert served == json.loads(json.dumps(document(has_actions=True)))
    mounted = {
        one.path for one in admin_routes(api.cluster, Access(is_loopback=True))
        if isinstance(one, Route)
    }  # fmt: skip
    assert mounted - {PATH, "/heartbeat", "/api/{rest:path}"} == set(served["paths"])
    for path, methods in served["paths"].items():
        allowed = ask(f"{api.url}{path}", "PATCH")
        assert allowed.status == 405
        assert allowed.headers["allow"].lower().split(", ") == list(methods)
    names = [one["operationId"] for path in served["paths"].values() for one in path.values()]
    assert len(names) == len(set(names)) == len(OPERATIONS)


SAMPLES: dict[str, object] = {
    "ledger_id": 0,
    "enabled": "true",
    "delay_seconds": 5,
    "level": "info",
    "log_level": "info",
    "suspendMajor": "true",
    "resumeMinor": "true",
    "readOnly": "true",
    "bookie_src": BOOKIES[0],
    "bookie_id": BOOKIES[0],
    "job_id": 1,
    "log": "orders",
    "position": "0:0",
    "dataset": "events",
}


NEEDED = {
    "set_server_config": ("log_level",),
    "suspend_compaction": ("suspendMajor",),
    "resume_compaction": ("resumeMinor",),
}
"""Of parameters that can all be left out, those that make a request."""


NEEDS_BOOKIES = {"check_ledger", "show_version", "expand_storage"}
"""Their answers are checked in ``tests.integration``: ``test_admin_api_jobs``,
``test_running_options``."""


@pytest.mark.usefixtures("own_logging")  # one operation sets the log level
@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if one.name not in NEEDS_BOOKIES],
    ids=lambda one: one.name,
)
def test_every_answer_is_as_the_document_describes_it(
    api: Api, operation: Operation, tmp_path: Path
) -> None:
    api.client.add_ledger([b"one", b"two"])
    api.client.close_ledger(0)
    if operation.name == "cluster_status":
        api.cluster.metadata = f"sqlite://{tmp_path}/metadata.db"
        store = open_store(api.cluster.metadata)
        initialise(store)
        store.close()
    api.client.add_log("orders", [b"one"])
    load_id = DataSets(cast("Client", api.client)).begin("events").load_id
    if operation.name == "stop_job":
        api.cluster.jobs.begin("nothing", {}, lambda _progress, _is_stopped: True)
    samples = SAMPLES | {"load_id": load_id}
    wanted = NEEDED.get(operation.name, ())
    required = {
        one.name: samples[one.name]
        for one in operation.parameters
        if one.is_required or one.name in wanted
    }
    answer = api.ask(operation.method, operation.path, **required)
    assert answer.status == 200, answer.body
    check_answer(operation.method, operation.path, json.loads(answer.body))


def test_the_document_describes_bodies_and_keeps_passwords_out_of_queries(api: Api) -> None:
    for operations in api.get(PATH)["paths"].values():
        for method, one in operations.items():
            places = {parameter["name"]: parameter["in"] for parameter in one["parameters"]}
            assert "password" not in places
            assert set(places.values()) <= {"query", "header"}
            body = one.get("requestBody")
            assert (body is None) == (method == "get" or not places)
            if body is not None and SECRET_HEADER in places:
                properties = body["content"]["application/json"]["schema"]["properties"]
                assert properties["password"]["type"] == "string"


# ------------------------------------------------------------------ parameters and errors


@pytest.mark.parametrize(
    "query",
    [
        "",
        "ledger_id=",
        "ledger_id=-1",
        "ledger_id=9223372036854775808",
        "ledger_id=" + "9" * 5_000,
        "ledger_id=0x1",
        "ledger_id=%D9%A1",
        "ledger_id=../../etc/passwd",
        "ledger_id=0;reboot",
        "ledger_id=0&ledger_id=1",
        "ledger_id=0&more=1",
    ],
)
def test_a_wrong_parameter_is_an_error(api: Api, query: str) -> None:
    api.client.add_ledger([b"one"])
    answer = ask(f"{api.url}/api/v1/ledger/metadata?{query}")
    assert answer.status == 400
    assert json.loads(answer.body)["code"] == InvalidOptionError.code


@pytest.mark.parametrize("body", [b"[]", b"{", b"[" * 9_000, b'{"a": 1}', b" " * 20_000, b"\xff"])
def test_a_wrong_body_is_an_error(api: Api, body: bytes) -> None:
    path = "/api/v1/autorecovery/lost_bookie_recovery_delay"
    assert ask(api.url + path, "PUT", body=body).status == 400


@pytest.mark.parametrize("name", ["\\ud800", "\\u0000", "a" * 5_000])
def test_the_name_of_an_unknown_parameter_is_shown_however_it_is_spelled(
    api: Api, name: str
) -> None:
    path = "/api/v1/autorecovery/lost_bookie_recovery_delay"
    answer = ask(api.url + path, "PUT", body=b'{"%s": 1}' % name.encode())
    assert answer.status == 400
    assert "is no parameter" in json.loads(answer.body)["error"]


def test_an_action_takes_its_parameters_in_the_body_too(api: Api) -> None:
    path = "/api/v1/autorecovery/lost_bookie_recovery_delay"
    assert api.get(path) == {"delay_seconds": None}
    assert ask(api.url + path, "PUT", body=b'{"delay_seconds": 90}').status == 200
    assert api.get(path) == {"delay_seconds": 90}
    assert ask(api.url + path, "PUT", body=b'{"delay_seconds": true}').status == 400
    assert api.ask("PUT", path, delay_seconds=604_801).status == 400


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MetadataUnavailableError("memory://", "no answer"), 503),
        (RequestTimeoutError("b", 5), 504),
        (UnauthorizedError(0), 403),
        (BadVersionError("/a", "changed"), 409),
        (LedgerClosedError(0, 7), 409),
        (DataSetConflictError("events", "it is the last version"), 409),
        (NoSuchVersionError("events", 3, 2), 404),
        (CorruptRecordError("/a", 0, "damaged"), 500),
    ],
)
def test_an_error_has_its_status_and_its_code(api: Api, error: ZbkError, status: int) -> None:
    api.client.failure = error
    answer = api.ask("GET", "/api/v1/ledger/metadata", ledger_id=0)
    assert answer.status == status
    assert json.loads(answer.body) == {"code": error.code, "error": str(error)}


def test_what_is_not_there_is_404(api: Api) -> None:
    assert api.ask("GET", "/api/v1/ledger/metadata", ledger_id=5).status == 404
    for path in ("/api/v1/nothing", "/api/v1/ledger/list/more", "/api/"):
        assert api.ask("GET", path).status == 404


def test_a_process_without_a_bookie_asks_for_the_id(api: Api) -> None:
    api.cluster.bookie_id = ""
    assert api.ask("GET", "/api/v1/bookie/state").status == 400
    assert api.get("/api/v1/bookie/state", bookie_id=BOOKIES[1])["running"] is True
