"""Bookies in the admin API: state, garbage collection, compaction, options and files."""

import json
import logging
from pathlib import Path

import msgspec
import pytest

from tests.support.fake_client import BOOKIES
from tests.support.http import ask
from tests.support.served_api import Api
from zbk.actors.serve.unsynced_ledgers import UnsyncedLedger
from zbk.config import BookieConfig
from zbk.config.running import RunningOptions
from zbk.errors import BookieReadOnlyError, BookieUnavailableError, ZbkError
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.underreplicated import MissingReason

INDEX_FILE = "0000000000000007.idx"


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
