"""The admin API on a cluster of real bookies: space, files, jobs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

import zbk
from tests.support.cluster import QUICK
from tests.support.http import ask
from tests.support.waiting import wait_until
from zbk.admin.access import Access
from zbk.admin.cluster import Cluster
from zbk.admin.routes import admin_routes
from zbk.cluster.local import LocalCluster
from zbk.config import BookieConfig
from zbk.http import serve


class Api:
    """A served API, and the cluster that it operates."""

    def __init__(self, running: LocalCluster, url: str) -> None:
        self.running = running
        self.url = url
        self.client = zbk.connect(running.metadata_uri)

    def ask(self, method: str, path: str, **body: object) -> Any:  # noqa: ANN401 - JSON
        answer = ask(f"{self.url}{path}", method, body=json.dumps(body).encode() if body else None)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

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
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder: Path = tmp_path_factory.mktemp("admin") / "data"
    with LocalCluster(folder, bookie_count=5, bookie_options=QUICK) as running:
        config = BookieConfig(
            metadata=running.metadata_uri,
            journal_dir=str(folder / "bookie0/journal"),
            ledger_dir=str(folder / "bookie0/ledgers"),
        )
        cluster = Cluster(running.metadata_uri, bookie_config=config)
        cluster.bookie_id = running.bookies[0].bookie_id
        access = Access(is_loopback=True, has_actions=True)
        server = serve(Starlette(routes=admin_routes(cluster, access)), "127.0.0.1:0")
        api = Api(running, server.url)
        yield api
        api.client.close()
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

    api.client.delete_ledger(wide.ledger_id)
    for ledger_id in list(api.client.list_ledgers()):
        if len(api.holders(ledger_id)) == 5:
            api.client.delete_ledger(ledger_id)
    api.running.terminate(numbers[victim])
    done = api.ended_job(
        api.ask("PUT", "/api/v1/autorecovery/decommission", bookie_src=victim)["job_id"]
    )
    assert (done["state"], done["error"]) == ("done", "")
    assert api.ask("GET", "/api/v1/bookie/cluster_info")["totalBookiesCount"] == 4
