"""The admin API against a client and a metadata store in memory, over real HTTP."""

import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.routing import Route

from tests.support.fake_client import BOOKIES, FakeClient
from tests.support.fake_connection import FakeConnection
from tests.support.http import Answer, ask
from tests.support.json_schema import check_answer
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.waiting import wait_until
from zbk.actors.process.bookie import Bookie
from zbk.actors.serve.unsynced_ledgers import UnsyncedLedger
from zbk.admin.access import Access, read_token
from zbk.admin.cluster import Cluster
from zbk.admin.openapi import PATH, document
from zbk.admin.operation import SECRET_HEADER, Operation
from zbk.admin.operations import OPERATIONS
from zbk.admin.routes import admin_routes
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cli.main import cli
from zbk.client.api import Client
from zbk.client.dataset.datasets import DataSets
from zbk.config import BookieConfig
from zbk.config.running import RunningOptions
from zbk.errors import (
    BadVersionError,
    BookieReadOnlyError,
    BookieUnavailableError,
    CorruptRecordError,
    DataSetConflictError,
    InvalidOptionError,
    LedgerClosedError,
    MetadataUnavailableError,
    NoSuchVersionError,
    RequestTimeoutError,
    UnauthorizedError,
    UnsupportedVersionError,
    ZbkError,
)
from zbk.http import serve
from zbk.metadata.paths import ledger_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import Cookie, LedgerLayout
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.underreplicated import MissingReason

TOKEN = "0123456789abcdef"
INDEX_FILE = "0000000000000007.idx"


LEDGER = LedgerMetadata(
    ledger_id=0,
    ensemble_size=1,
    write_quorum_size=1,
    ack_quorum_size=1,
    ledger_type=LedgerType.PD_JOURNAL,
    digest_type=DigestType.XXH3,
    password_digest=b"",
    fragments=(Fragment(0, (BOOKIES[0],)),),
    created_ms=0,
    creation_token="t",
)


class DataSetClient(FakeClient):
    """A client that has data sets, too."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.data_set_store = DataSetStore(store)

    def next_ledger_id(self) -> int:
        return len(self.metadata)


class Api:
    """A served API, and what it operates."""

    def __init__(self) -> None:
        self.store = MemoryStore(MemoryTree())
        self.client = DataSetClient(self.store)
        instance = initialise(self.store)
        cookie = Cookie(
            bookie_id=BOOKIES[0],
            instance_id=instance,
            journal_dirs=(),
            ledger_dirs=(),
            created_ms=1,
        )
        BookieRegistry(self.store).create_cookie(cookie)
        self.connection = FakeConnection(self.store)
        self.cluster = Cluster(
            "memory://",
            running=RunningOptions(
                BookieConfig(journal_dir="/no/journal", ledger_dir="/no/ledgers")
            ),
            connect=lambda _address: cast("Client", self.client),
            open_connection=lambda _address: cast("ClusterConnection", self.connection),
        )
        self.cluster.bookie_id = BOOKIES[0]
        self.unsynced: list[UnsyncedLedger] = []
        own_bookie = SimpleNamespace(unsynced_ledgers=lambda: self.unsynced)
        self.cluster.own_bookie = cast("Bookie", own_bookie)
        self.url = ""

    def get(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 - JSON
        answer = self.ask("GET", path, **parameters)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def ask(self, method: str, path: str, **parameters: object) -> Answer:
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return ask(f"{self.url}{path}?{query}" if query else f"{self.url}{path}", method)


def serving(access: Access) -> Iterator[Api]:
    api = Api()
    server = serve(Starlette(routes=admin_routes(api.cluster, access)), "127.0.0.1:0")
    api.url = server.url
    yield api
    server.close()
    api.cluster.jobs.close()
    api.store.close()


@pytest.fixture
def api() -> Iterator[Api]:
    yield from serving(Access(is_loopback=True, has_actions=True))


@pytest.fixture
def reading() -> Iterator[Api]:
    yield from serving(Access(is_loopback=True))


# ------------------------------------------------------------------ the document


def test_a_page_of_ledgers_has_those_beside_an_unreadable_one(
    reading: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ledger in range(3):
        reading.client.add_ledger([b"abc"])
    read = reading.client.get_ledger_metadata
    unreadable: list[ZbkError] = []

    def fail_for_one(ledger_id: int) -> LedgerMetadata:
        if ledger_id == 1:
            raise unreadable[-1]
        return read(ledger_id)

    monkeypatch.setattr(reading.client, "get_ledger_metadata", fail_for_one)
    for error in (UnsupportedVersionError("newer"), CorruptRecordError("/ledgers/1", 0, "bad")):
        unreadable.append(error)
        shown = reading.get("/api/v1/ledger/list", print_metadata="true")
        assert [ledger_id for ledger_id, one in shown.items() if one] == ["0", "2"]
        assert shown["1"] is None


def test_a_search_names_a_ledger_of_a_newer_zbk(reading: Api) -> None:
    ledgers = LedgerStore(reading.store)
    for _ledger in range(2):
        ledgers.create(lambda number: msgspec.structs.replace(LEDGER, ledger_id=number))
    path = ledger_path(0, LedgerLayout.HIERARCHICAL)
    node = reading.store.get(path)
    newer = msgspec.msgpack.decode(node.value) | {"format_version": 99}
    reading.store.set(path, msgspec.msgpack.encode(newer), node.version)

    found = reading.get("/api/v1/zbk/ledger/find")

    assert list(found["ledgers"]) == ["1"]
    assert "format version 99" in found["damaged"]["0"]


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


# ------------------------------------------------------------------ access


def test_actions_need_to_be_allowed(reading: Api) -> None:
    reading.client.add_ledger([b"one"])
    for one in OPERATIONS:
        if one.is_action:
            refused = reading.ask(one.method, one.path, ledger_id=0)
            assert refused.status == 403
            assert "--allow-actions" in refused.body
    assert list(reading.client.list_ledgers()) == [0]
    assert reading.get("/api/v1/ledger/list") == {"0": None}


def test_a_token_is_required_where_there_is_one() -> None:
    for api in serving(Access(is_loopback=False, token=TOKEN, has_actions=True)):
        for path in ("/api/v1/ledger/list", PATH):
            for wrong in ("", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"):
                assert ask(api.url + path, headers={"Authorization": wrong}).status == 401
            assert ask(api.url + path, headers={"Authorization": f"Bearer {TOKEN}"}).status == 200
        assert ask(f"{api.url}/heartbeat").body == "OK\n"


def test_beyond_loopback_nothing_is_served_without_a_token() -> None:
    for api in serving(Access(is_loopback=False, has_actions=True)):
        answer = ask(f"{api.url}/api/v1/ledger/list", headers={"Authorization": "Bearer "})
        assert answer.status == 403
        assert "--http-token-file" in answer.body


def test_a_token_file_has_one_long_word(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    assert TOKEN not in repr(Access(is_loopback=True, token=TOKEN))
    for text in ("", "short", "two words of a token", "ä" * 20, "a" * 2_000):
        file.write_text(text)
        with pytest.raises(InvalidOptionError, match="token file"):
            read_token(file)
    with pytest.raises(InvalidOptionError, match="cannot be read"):
        read_token(tmp_path)


@pytest.mark.usefixtures("own_logging")
def test_actions_without_an_address_are_refused(tmp_path: Path) -> None:
    arguments = ["--journal-dir", "j", "--ledger-dir", "l", "--metadata", f"sqlite://{tmp_path}/m"]
    command = ["bookie", "run", *arguments, "--http", "off", "--allow-actions"]
    failed = CliRunner().invoke(cli, command)
    assert failed.exit_code != 0
    assert "needs an address" in str(failed.exception) + failed.output


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


# ------------------------------------------------------------------ what operations do


def test_ledgers_are_listed_shown_read_and_deleted(api: Api) -> None:
    for number in range(101):
        api.client.add_ledger([b"one", b"\xff", str(number).encode()])
        api.client.close_ledger(number)
    assert len(api.get("/api/v1/ledger/list")) == 101
    assert list(api.get("/api/v1/ledger/list", page=2)) == ["100"]
    shown = api.get("/api/v1/ledger/list", page=2, print_metadata="true")["100"]
    assert (shown["state"], shown["lastEntryId"], shown["closed"]) == ("CLOSED", 2, True)
    assert not re.search("password|key|token", json.dumps(shown), re.IGNORECASE)
    read = api.get("/api/v1/ledger/read", ledger_id=7)
    assert read == {"0": "one", "1": "\ufffd", "2": "7"}
    assert list(api.get("/api/v1/ledger/read", ledger_id=7, start_entry_id=2)) == ["2"]
    assert api.ask("DELETE", "/api/v1/ledger/delete", ledger_id=7).status == 200
    assert api.ask("GET", "/api/v1/ledger/metadata", ledger_id=7).status == 404


def test_ledgers_are_found_by_filters_piece_by_piece(api: Api) -> None:
    def make(ledger_id: int) -> LedgerMetadata:
        return msgspec.structs.replace(
            LEDGER,
            ledger_id=ledger_id,
            created_ms=ledger_id,
            custom_metadata={"job": b"odd" if ledger_id % 2 else b"even"},
            fragments=(Fragment(0, (BOOKIES[ledger_id % 3],)),),
        )

    ledgers = LedgerStore(api.store)
    ledgers.create_many(make, 120)
    ledgers.update(7, lambda now: now.with_closed(4, 50))

    def found(**filters: object) -> list[int]:
        answer = api.get("/api/v1/zbk/ledger/find", **filters)
        check_answer("GET", "/api/v1/zbk/ledger/find", answer)
        return [int(ledger_id) for ledger_id in answer["ledgers"]]

    first = api.get("/api/v1/zbk/ledger/find")
    assert (len(first["ledgers"]), first["next_ledger_id"]) == (100, 100)
    rest = api.get("/api/v1/zbk/ledger/find", from_ledger_id=100)
    assert (len(rest["ledgers"]), rest["next_ledger_id"]) == (20, None)
    assert found(state="CLOSED") == found(length_above=49) == found(length_below=51) == [7]
    assert found(length_above=50) == found(ledger_type="VD_JOURNAL") == []
    assert found(created_after_ms=9, created_before_ms=12) == [10, 11]
    assert found(custom_metadata="job%3Dodd", bookie_id=BOOKIES[0], created_before_ms=10) == [3, 9]
    for wrong in ({"state": "closed"}, {"custom_metadata": "job"}, {"from_ledger_id": -1}):
        assert api.ask("GET", "/api/v1/zbk/ledger/find", **wrong).status == 400


def test_bookies_are_listed_by_state(api: Api) -> None:
    path = "/api/v1/bookie/list_bookies"
    assert api.get(path) == {BOOKIES[0]: None, BOOKIES[1]: None}
    assert api.get(path, type="ro", print_hostnames="true") == {BOOKIES[2]: "127.0.0.1"}
    assert api.ask("GET", path, type="all").status == 400


def test_the_readonly_switch_is_set_and_shown(api: Api) -> None:
    path = "/api/v1/bookie/state/readonly"
    for state in ("true", "false"):
        assert api.ask("PUT", path, readOnly=state).status == 200
        assert api.get(path)["switched"] is (state == "true")
    assert api.ask("PUT", path, readOnly="true", bookie_id="nobody").status == 400


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


def test_the_cluster_is_summed_up(api: Api) -> None:
    path = "/api/v1/bookie/cluster_info"
    found = api.get(path)
    assert found == {
        "auditorElected": False, "auditorId": "", "clusterUnderReplicated": False,
        "ledgerReplicationEnabled": True, "totalBookiesCount": 1, "writableBookiesCount": 0,
        "readonlyBookiesCount": 0, "unavailableBookiesCount": 1,
    }  # fmt: skip
    UnderreplicationStore(api.store).report(4, ["b-1"], MissingReason.NOT_WRITTEN)
    api.ask("PUT", "/api/v1/autorecovery/status", enabled="false")
    changed = {"clusterUnderReplicated": True, "ledgerReplicationEnabled": False}
    assert api.get(path) == found | changed


def test_a_round_of_garbage_collection_is_seen(api: Api) -> None:
    path = "/api/v1/bookie/gc"
    assert api.get(path) == {"is_in_force_gc": "false"}
    still = msgspec.structs.replace(api.connection.requests.garbage, ended_round=1)
    api.connection.requests.garbage = still
    assert api.get(path) == {"is_in_force_gc": "true"}


@pytest.mark.parametrize(
    ("given", "log_count"),
    [
        ({}, 0),
        ({"compaction": "major"}, 3),
        ({"forceMajor": True}, 3),
        ({"forceMinor": True}, 1),
        ({"forceMajor": False, "forceMinor": False}, 0),
    ],
)
def test_garbage_collection_compacts_as_both_vocabularies_say(
    api: Api, given: dict[str, object], log_count: int
) -> None:
    answer = ask(f"{api.url}/api/v1/bookie/gc", "PUT", body=json.dumps(given).encode())
    assert json.loads(answer.body)["compacted_log_count"] == log_count


def test_compaction_is_suspended_and_resumed_by_kind(api: Api) -> None:
    suspend, resume = (f"/api/v1/bookie/gc/{one}_compaction" for one in ("suspend", "resume"))
    assert api.get(suspend) == {"isMajorGcSuspended": "false", "isMinorGcSuspended": "false"}
    api.ask("PUT", suspend, suspendMajor="true", suspendMinor="false")
    assert api.get(suspend) == {"isMajorGcSuspended": "true", "isMinorGcSuspended": "false"}
    api.ask("PUT", suspend, suspendMinor="true")
    api.ask("PUT", resume, resumeMajor="true")
    assert api.get(suspend) == {"isMajorGcSuspended": "false", "isMinorGcSuspended": "true"}
    for path in (suspend, resume):
        assert api.ask("PUT", path).status == 400


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (None, {"passed": True, "readOnly": False}),
        (BookieReadOnlyError("b-1"), {"passed": False, "readOnly": True}),
        (BookieUnavailableError("b-1", "gone"), {"passed": False, "readOnly": False}),
    ],
)
def test_a_bookie_tests_itself(
    api: Api, failure: ZbkError | None, answer: dict[str, object]
) -> None:
    api.client.self_test_error = failure
    assert api.get("/api/v1/bookie/sanity") == answer
    assert api.client.tested == [BOOKIES[0]]


@pytest.mark.usefixtures("own_logging")
def test_options_that_need_a_restart_are_refused_by_name(api: Api) -> None:
    path = "/api/v1/config/server_config"
    refused = ask(
        f"{api.url}{path}",
        "PUT",
        body=b'{"log_level": "debug", "listen": "tcp://a:1", "journal_dir": "/j"}',
    )
    assert refused.status == 400
    assert "journal_dir, listen" in refused.body
    assert "needs a restart" in refused.body
    assert logging.getLogger("zbk").getEffectiveLevel() != logging.DEBUG
    assert api.ask("PUT", path).status == 400
    assert ask(f"{api.url}{path}", "PUT", body=b'{"log_level": "debug"}').status == 200
    assert logging.getLogger("zbk").level == logging.DEBUG


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


def test_the_largest_unsynced_ledgers_of_the_bookie_are_listed(api: Api) -> None:
    path = "/api/v1/zbk/bookie/unsynced"
    api.unsynced = [
        UnsyncedLedger(ledger_id=n, unsynced_size=10 * n, entry_count=n, age_ms=900 - n)
        for n in range(1, 31)
    ]
    found = api.get(path)
    totals = {name: found[name] for name in ("bookie_id", "ledger_count", "unsynced_size")}
    assert totals == {"bookie_id": BOOKIES[0], "ledger_count": 30, "unsynced_size": 4_650}
    assert [one["ledger_id"] for one in found["ledgers"]] == list(range(30, 10, -1))
    oldest = api.get(path, order="age", limit=1)["ledgers"]
    assert oldest == [{"ledger_id": 1, "unsynced_size": 10, "entry_count": 1, "age_ms": 899}]
    assert api.ask("GET", path, limit=101).status == 400
    assert api.ask("GET", path, order="id").status == 400


def test_the_options_of_the_bookie_are_shown_without_secrets(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZBK_PASSWORD", "a-rack-secret")
    config = BookieConfig(
        metadata="zk://ann:zoo-secret@h/zbk", rack="a-rack-secret", journal_dir=("/j1", "/j2")
    )
    api.cluster.running = RunningOptions(config)
    shown = api.get("/api/v1/config/server_config")
    assert "secret" not in json.dumps(shown)
    assert shown["metadata"].endswith("@h/zbk")
    assert shown["journal_dir"] == "('/j1', '/j2')"
    assert shown.keys() == set(BookieConfig.__struct_fields__)
    api.cluster.option_sources = {"rack": "command line"}
    sources = api.get("/api/v1/zbk/config/sources")
    assert {name: one["value"] for name, one in sources.items()} == shown
    assert (sources["rack"]["source"], sources["listen"]["source"]) == ("command line", "default")
    api.cluster.running = api.cluster.own_bookie = None
    for path in (
        "/api/v1/config/server_config", "/api/v1/bookie/list_disk_file",
        "/api/v1/zbk/bookie/unsynced", "/api/v1/zbk/config/sources",
    ):  # fmt: skip
        refused = api.ask("GET", path)
        assert refused.status == 400
        assert "has none" in refused.body


def test_the_files_of_the_bookie_are_listed_by_type(api: Api, tmp_path: Path) -> None:
    config = BookieConfig(
        journal_dir=str(tmp_path / "j"), ledger_dir=(str(tmp_path / "l1"), str(tmp_path / "l2"))
    )
    api.cluster.running = RunningOptions(config)
    for name in (
        "j/0000000000000001.journal", "j/000000000000000a.journal", "j/cookie",
        "l1/logs/00000002.log", "l2/logs/00000001.log", "l2/logs/00000009.log.new",
        "l1/index/00/00/0000000000000007.idx", "l1/passwd.log",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    path = "/api/v1/bookie/list_disk_file"
    found = {
        "journal files": "0000000000000001.journal\t000000000000000a.journal",
        "entrylog files": "00000002.log\t00000001.log",
    }
    assert api.get(path) == found | {"index files": INDEX_FILE}
    assert api.get(path, file_type="index") == {"index files": INDEX_FILE}
    for wrong in ("../logs", "cookie", "journal,index"):
        assert api.ask("GET", path, file_type=wrong).status == 400


# ------------------------------------------------------------------ jobs


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


def test_a_password_is_never_in_a_query_nor_in_a_log(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = "/api/v1/autorecovery/bookie"
    refused = api.ask("PUT", path, bookie_src=BOOKIES[0], password="hush-hush")
    assert refused.status == 400
    assert "hush" not in refused.body
    assert SECRET_HEADER in refused.body
    url = f"{api.url}{path}?bookie_src={BOOKIES[0]}"
    taken = ask(url, "PUT", {SECRET_HEADER: "hush-hush"})
    assert taken.status == 200, taken.body
    assert json.loads(taken.body)["jobs"][0]["options"]["has_password"] is True
    body = b'{"password": "hush-hush"}'
    assert ask(url, "PUT", {SECRET_HEADER: "hush-hush"}, body).status == 400, "given twice"
    assert ask(url, "PUT", {SECRET_HEADER: "hush" * 100}).status == 400
    wait_until(lambda: api.get("/api/v1/zbk/job/list")[0]["state"] == "done")
    assert "hush" not in caplog.text + repr([one.__dict__ for one in caplog.records])
    assert "hush" not in json.dumps(api.get("/api/v1/zbk/job/list"))
