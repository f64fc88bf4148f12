"""The admin API on a cluster of real bookies: space, files, jobs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

import zbk
from tests.support.cluster import QUICK, lone_ledger
from tests.support.fake_data_sets import SCHEMA
from tests.support.http import ask
from tests.support.json_schema import check_answer
from tests.support.waiting import wait_until
from zbk.admin.access import Access
from zbk.admin.cluster import Cluster
from zbk.admin.operation import SECRET_HEADER
from zbk.admin.routes import admin_routes
from zbk.auditor.check_by_hand import check_by_hand
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.local import LocalCluster
from zbk.config import BookieConfig
from zbk.config.running import RunningOptions
from zbk.http import serve
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.connect import open_store
from zbk.protocol.dataset.manifest import ColumnStats, DataLedger


class Api:
    """A served API, and the cluster that it operates."""

    def __init__(self, running: LocalCluster, url: str) -> None:
        self.running = running
        self.url = url
        self.client = zbk.connect(running.metadata_uri)

    def ask(self, method: str, path: str, password: str = "", /, **body: object) -> Any:  # noqa: ANN401 - JSON
        """Return a checked answer; this password goes into the header."""
        headers = {SECRET_HEADER: password} if password else {}
        text = json.dumps(body).encode() if body else None
        answer = ask(f"{self.url}{path}", method, headers, text)
        assert answer.status == 200, answer.body
        found = json.loads(answer.body)
        check_answer(method, path.partition("?")[0], found)
        return found

    def ended_job(self, job_id: int) -> dict[str, Any]:
        """Wait for the end of a job; return it."""

        def job() -> dict[str, Any]:
            jobs = self.ask("GET", "/api/v1/zbk/job/list")
            found: dict[str, Any] = next(one for one in jobs if one["job_id"] == job_id)
            return found

        wait_until(lambda: job()["ended_ms"] is not None)
        return job()

    def holders(self, ledger_id: int) -> tuple[str, ...]:
        """Return the bookies of a ledger's last fragment."""
        return tuple(self.client.get_ledger_metadata(ledger_id).last_fragment.bookies)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("admin") / "data"
    with LocalCluster(folder, bookie_count=5, bookie_options=QUICK) as started:
        yield started


@pytest.fixture
def api(running: LocalCluster) -> Iterator[Api]:
    config = BookieConfig(
        metadata=running.metadata_uri,
        journal_dir=str(running.folder / "bookie0/journal"),
        ledger_dir=str(running.folder / "bookie0/ledgers"),
    )
    cluster = Cluster(running.metadata_uri, running=RunningOptions(config))
    cluster.bookie_id = running.bookies[0].bookie_id
    access = Access(is_loopback=True, has_actions=True)
    server = serve(Starlette(routes=admin_routes(cluster, access)), "127.0.0.1:0")
    served = Api(running, server.url)
    yield served
    served.client.close()
    server.close()
    cluster.close()


def test_bookies_report_their_space_files_and_garbage_collection(api: Api) -> None:
    with api.client.create_ledger(ensemble_size=5, write_quorum_size=5, ack_quorum_size=5) as one:
        one.append(b"one")
    spaces = api.ask("GET", "/api/v1/bookie/list_bookie_info")
    assert spaces.keys() == {one.bookie_id for one in api.running.bookies}
    for space in [*spaces.values(), api.ask("GET", "/api/v1/bookie/info")]:
        assert 0 < space["freeSpace"] <= space["totalSpace"]
    files = api.ask("GET", "/api/v1/bookie/list_disk_file")
    assert files["journal files"].split("\t")[0].endswith(".journal")
    assert files["entrylog files"].split("\t") == ["00000001.log"]
    assert api.ask("PUT", "/api/v1/bookie/gc")["ended_round"] >= 1
    assert api.ask("GET", "/api/v1/bookie/gc") == {"is_in_force_gc": "false"}
    counts = api.ask("GET", "/api/v1/bookie/cluster_info")
    assert (counts["totalBookiesCount"], counts["writableBookiesCount"]) == (5, 5)
    assert api.ask("GET", "/api/v1/config/server_config")["metadata"] == api.running.metadata_uri


def test_compaction_is_suspended_at_one_bookie(api: Api) -> None:
    other = api.running.bookies[1].bookie_id
    path = "/api/v1/bookie/gc/suspend_compaction"
    suspended = api.ask("PUT", path, suspendMajor=True, suspendMinor=True)
    assert suspended == {"isMajorGcSuspended": "true", "isMinorGcSuspended": "true"}
    assert api.ask("GET", f"{path}?bookie_id={other}") == {
        "isMajorGcSuspended": "false",
        "isMinorGcSuspended": "false",
    }
    told = api.ask("PUT", "/api/v1/bookie/gc", compaction="minor")
    assert told["compaction_gave_up"] == "minor compaction is suspended"
    api.ask("PUT", "/api/v1/bookie/gc/resume_compaction", resumeMajor=True, resumeMinor=True)
    assert api.ask("PUT", "/api/v1/bookie/gc", compaction="minor")["compaction_gave_up"] == ""


def test_a_bookie_tests_itself_and_leaves_no_ledger(api: Api) -> None:
    before = list(api.client.list_ledgers())
    assert api.ask("GET", "/api/v1/bookie/sanity") == {"passed": True, "readOnly": False}
    assert list(api.client.list_ledgers()) == before
    own = api.running.bookies[0].bookie_id
    registry = BookieRegistry(open_store(api.running.metadata_uri))
    registry.switch_readonly(own, is_readonly=True)
    wait_until(lambda: api.client.bookie_info(own).is_readonly)
    wait_until(lambda: api.ask("GET", "/api/v1/bookie/sanity")["readOnly"])
    registry.switch_readonly(own, is_readonly=False)
    wait_until(lambda: not api.client.bookie_info(own).is_readonly)
    with pytest.raises(zbk.errors.BookieUnavailableError, match="not registered"):
        api.client.test_bookie("b-unknown")


def test_a_ledger_with_a_password_is_made_read_and_closed(api: Api) -> None:
    made = api.ask(
        "PUT", "/api/v1/zbk/ledger/create", password="s3cret-word", ledger_type="VD_JOURNAL",
        custom_metadata=["job=nightly"],
    )  # fmt: skip
    query = f"ledger_id={made['ledger_id']}"
    shown = api.ask("GET", f"/api/v1/ledger/metadata?{query}")[str(made["ledger_id"])]
    assert (shown["ledgerType"], shown["customMetadata"]) == ("VD_JOURNAL", {"job": "bmlnaHRseQ=="})
    with api.client.open_for_append(made["ledger_id"], b"s3cret-word") as writer:
        writer.append_many([b"one", b"\xff"]).result(30)
        durable = api.ask("PUT", f"/api/v1/zbk/ledger/sync?{query}", "s3cret-word")
        assert durable["last_durable_id"] == 1
    path = f"/api/v1/ledger/read?{query}"
    for headers in ({}, {SECRET_HEADER: "another"}):
        refused = ask(api.url + path, headers=headers)
        assert refused.status == 403
        assert "s3cret" not in refused.body
    assert api.ask("GET", path, "s3cret-word") == {"0": "one", "1": "\ufffd"}
    last = api.ask("GET", f"{path}&encoding=base64&start_entry_id=1", "s3cret-word")
    assert last == {"1": "/w=="}
    holder = api.holders(made["ledger_id"])[0]
    assert len(api.ask("GET", f"{path}&bookie_id={holder}", "s3cret-word")) == 2

    unused = api.ask("PUT", "/api/v1/zbk/ledger/create")["ledger_id"]
    assert api.ask("PUT", "/api/v1/zbk/ledger/close", ledger_id=unused)["last_entry_id"] == -1
    assert api.client.get_ledger_metadata(unused).is_closed


def test_a_log_is_shown_read_and_truncated(api: Api) -> None:
    for text in (b"one", b"two"):  # each owner begins a ledger
        with api.client.open_log("orders") as log:
            log.append(text)
    shown = api.ask("GET", "/api/v1/zbk/log/show?log=orders")
    read = api.ask("GET", "/api/v1/zbk/log/read?log=orders")
    assert [one["payload"] for one in read] == ["one", "two"]
    assert read[0]["position"] == shown["begin"]
    rest = api.ask("GET", f"/api/v1/zbk/log/read?log=orders&position={read[1]['position']}")
    assert rest == read[1:]
    cut = api.ask("PUT", "/api/v1/zbk/log/truncate", log="orders", position=read[1]["position"])
    assert cut == {"deleted_ledger_count": 1}
    api.ask("DELETE", "/api/v1/zbk/log/delete?log=orders")
    assert ask(f"{api.url}/api/v1/zbk/log/show?log=orders").status == 404


def test_a_data_set_is_shown_collected_and_dropped(api: Api) -> None:
    data_sets = zbk.DataSets(api.client, b"pass-of-data")
    ticket = data_sets.begin("events", who="a test")
    with data_sets.create_ledger(ticket, partition=0, attempt=0) as ledger:
        ledger.append(b"schema")
    stats = ColumnStats(null_count=1, low=float("-inf"), high=b"a")
    data = DataLedger(
        ledger_id=ledger.ledger_id, entry_count=1, row_count=0, size=6, load_id=ticket.load_id,
        partition=0, attempt=0, columns={"x": stats},
    )  # fmt: skip
    data_sets.commit(ticket, SCHEMA, [data])
    left = data_sets.begin("events")
    data_sets.create_ledger(left, partition=0, attempt=0).close()

    assert api.ask("GET", "/api/v1/zbk/dataset/list") == ["events"]
    shown = api.ask("GET", "/api/v1/zbk/dataset/show?dataset=events")
    assert [one["version"] for one in shown["versions"]] == [1]
    assert "password" not in json.dumps(shown)
    path = "/api/v1/zbk/dataset/version?dataset=events"
    assert ask(api.url + path).status == 403
    version = api.ask("GET", path, "pass-of-data")
    assert [one["ledger_id"] for one in version["ledgers"]] == [ledger.ledger_id]
    bounds = {"null_count": 1, "low": "-inf", "high": "YQ=="}
    assert version["ledgers"][0]["columns"] == {"x": bounds}
    assert version["schema"] == SCHEMA.decode()
    aborted = api.ask(
        "PUT", "/api/v1/zbk/dataset/abort", dataset="events", load_id=left.load_id,
        password="pass-of-data",
    )  # fmt: skip
    assert aborted == {"state": "ABORTED", "deleted_ledger_count": 1}
    refused = api.ask("PUT", "/api/v1/zbk/dataset/gc", dataset="events", password="pass-of-data")
    assert api.ended_job(refused["job_id"])["state"] == "done"
    api.ask("DELETE", "/api/v1/zbk/dataset/drop?dataset=events")
    assert api.ask("GET", "/api/v1/zbk/dataset/list") == []


def test_the_metadata_and_the_copies_of_a_ledger_are_checked(api: Api) -> None:
    with api.client.create_ledger() as ledger:
        ledger.append_many([b"%d" % n for n in range(9)]).result(30)
    query = f"ledger_id={ledger.ledger_id}"
    found = api.ask("GET", f"/api/v1/zbk/ledger/check?{query}")
    assert (found["is_whole"], found["state"]) == (True, "CLOSED")
    with ClusterConnection(api.running.metadata_uri) as connection:
        stopped = check_by_hand(
            connection, ledger.ledger_id, is_full=True, is_reporting=True, is_over=lambda: True
        )
    assert set(stopped.undecided) == set(api.holders(ledger.ledger_id))
    assert stopped.missing == {}
    for action in (f"/api/v1/zbk/ledger/check?{query}&full=true", "/api/v1/zbk/metadata/check"):
        done = api.ended_job(api.ask("PUT", action)["job_id"])
        assert (done["state"], done["error"]) == ("done", "")


def lone_ledger_on(client: zbk.Client, bookie_id: str) -> zbk.LedgerWriter:
    """Return the writer of an open ledger that only this bookie has."""
    for _ in range(1_000):
        ledger = lone_ledger(client)
        if client.get_ledger_metadata(ledger.ledger_id).last_fragment.bookies == (bookie_id,):
            return ledger
        ledger.close()
        client.delete_ledger(ledger.ledger_id)
    raise AssertionError("placement never chose this bookie")


def test_a_bookie_is_emptied_and_removed_by_jobs(api: Api) -> None:
    with api.client.create_ledger(ensemble_size=5, write_quorum_size=3, ack_quorum_size=2) as wide:
        wide.append_many([b"%d" % n for n in range(50)]).result(30)
    with api.client.create_ledger(
        ensemble_size=4, write_quorum_size=4, ack_quorum_size=3, password=b"a secret"
    ) as sealed:
        sealed.append_many([b"%d" % n for n in range(20)]).result(30)
    numbers = {one.bookie_id: number for number, one in enumerate(api.running.bookies)}
    victim = max(api.holders(sealed.ledger_id), key=numbers.__getitem__)

    alive = api.ask("PUT", "/api/v1/autorecovery/decommission", bookie_src=victim)
    assert "it is running" in api.ended_job(alive["job_id"])["error"]
    (begun,) = api.ask("PUT", "/api/v1/autorecovery/bookie", bookie_src=[victim])["jobs"]
    emptied = api.ended_job(begun["job_id"])
    assert emptied["state"] == "failed", "five of five bookies are needed"
    assert [one["ledger_id"] for one in emptied["progress"]["left"]].count(wide.ledger_id) == 1
    assert victim not in api.holders(sealed.ledger_id)

    with zbk.connect(api.running.metadata_uri) as gone:
        unclosed = lone_ledger_on(gone, victim)
        unclosed.append(b"its writer is gone")
    sole = lone_ledger_on(api.client, victim)
    sole.append_many([b"%d" % n for n in range(7)]).result(30)
    sole.close()
    api.running.terminate(numbers[victim])
    query = f"ledger_id={wide.ledger_id}&report=true"
    silent = api.ended_job(api.ask("PUT", f"/api/v1/zbk/ledger/check?{query}")["job_id"])
    assert silent["state"] == "failed"
    assert silent["progress"]["left"][0]["undecided"] == [victim]
    for ledger_id in list(api.client.list_ledgers()):
        if len(api.holders(ledger_id)) == 5:
            api.client.delete_ledger(ledger_id)

    waiting = api.ask("PUT", "/api/v1/autorecovery/bookie", bookie_src=[victim], grace_ms=600_000)
    (job,) = waiting["jobs"]
    wait_until(lambda: api.ask("GET", "/api/v1/zbk/job/list")[-1]["state"] == "running")
    api.ask("PUT", "/api/v1/zbk/job/stop", job_id=job["job_id"])
    assert api.ended_job(job["job_id"])["state"] == "stopped"
    api.client.delete_ledger(unclosed.ledger_id)

    def decommission(**more: object) -> dict[str, Any]:
        path = "/api/v1/autorecovery/decommission"
        return api.ended_job(api.ask("PUT", path, bookie_src=victim, **more)["job_id"])

    named = api.ask("GET", f"/api/v1/zbk/ledger/find?bookie_id={victim}")
    assert named["ledgers"].keys() == {str(sole.ledger_id)}
    assert "still name it" in decommission()["error"]
    kept = decommission(delete_cookie=False)
    assert (kept["state"], kept["progress"]["left_count"]) == ("failed", 1)
    for wrong_count in (0, 8):
        stated = decommission(give_up_count=wrong_count)
        assert "7 entries would be lost" in stated["error"]
        lost = [one for one in stated["progress"]["left"] if one["outcome"] == "lost"]
        assert [one["ledger_id"] for one in lost] == [sole.ledger_id]
        assert victim in api.holders(sole.ledger_id)
    done = decommission(give_up_count=7)
    assert (done["state"], done["error"]) == ("done", "")
    assert victim not in api.holders(sole.ledger_id)
    assert api.ask("GET", "/api/v1/bookie/cluster_info")["totalBookiesCount"] == 4
