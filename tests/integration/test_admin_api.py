"""The admin API of a real bookie."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zbk
from tests.support.cluster import Shell, lone_ledger
from tests.support.http import ask, url_in

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def bookie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A bookie whose API needs a token and may act: its metadata and its URL."""
    folder: Path = tmp_path_factory.mktemp("bookie")
    (folder / "token").write_text(TOKEN)
    metadata = f"sqlite://{folder}/metadata.db"
    shell = Shell(folder, {"ZBK_METADATA": metadata, "ZBK_BOOKIE_RACK": "r9"})
    (folder / "zbk.toml").write_text('[bookie]\nsync_interval_ms = "2s"\nrack = "r1"\n')
    directories = ("--journal-dir", "b/journal", "--ledger-dir", "b/ledgers")
    shell.run("bookie", "init", *directories)
    arguments = ("bookie", "run", *directories, "--listen", "tcp://127.0.0.1:0", "--allow-actions")
    http = ("--http", "0.0.0.0:0", "--http-token-file", str(folder / "token"))
    with shell.start(*arguments, *http, "--config", "zbk.toml") as process:
        assert process.stderr is not None
        lines = (line.decode() for line in iter(process.stderr.readline, b""))
        yield metadata, url_in(next(line for line in lines if "READY" in line))
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(30) == 0


def call(url: str, method: str, path: str) -> Any:  # noqa: ANN401 - JSON
    answer = ask(f"{url}{path}", method, {"Authorization": f"Bearer {TOKEN}"})
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def test_a_bookie_serves_the_admin_api_of_its_cluster(bookie: tuple[str, str]) -> None:
    metadata, url = bookie
    assert ask(f"{url}/api/v1/ledger/list").status == 401
    assert ask(f"{url}/readyz").status == 200
    assert call(url, "GET", "/api/v1/ledger/list") == {}
    with zbk.connect(metadata) as client:
        bookie_id = client.list_bookies()[0].bookie_id
        ledger = lone_ledger(client)
        ledger.append_many([b"one", b"two"]).result()
        name = f"ledger_id={ledger.ledger_id}"
        recovered = call(url, "PUT", f"/api/v1/zbk/ledger/recover?{name}")
        assert recovered == {"ledger_id": ledger.ledger_id, "last_entry_id": 1}
    shown = call(url, "GET", f"/api/v1/ledger/metadata?{name}")[str(ledger.ledger_id)]
    assert (shown["state"], shown["allEnsembles"]) == ("CLOSED", {"0": [bookie_id]})
    assert call(url, "GET", f"/api/v1/ledger/read?{name}") == {"0": "one", "1": "two"}
    assert call(url, "GET", "/api/v1/bookie/info")["bookie_id"] == bookie_id
    assert call(url, "GET", "/api/v1/bookie/state")["readOnly"] is False
    call(url, "DELETE", f"/api/v1/ledger/delete?{name}")
    assert call(url, "PUT", "/api/v1/bookie/gc")["dropped_count"] == 1
    assert call(url, "GET", "/api/v1/zbk/status")["findings"]


def test_a_bookie_shows_its_options_and_files_and_ends_with_its_jobs(
    bookie: tuple[str, str],
) -> None:
    """The fixture checks that the process ends as it should although jobs have begun."""
    metadata, url = bookie
    shown = call(url, "GET", "/api/v1/config/server_config")
    assert (shown["metadata"], shown["journal_dir"]) == (metadata, "b/journal")
    sources = call(url, "GET", "/api/v1/zbk/config/sources")
    expected = {
        "metadata": (metadata, "ZBK_METADATA"),
        "journal_dir": ("b/journal", "command line"),
        "rack": ("r9", "ZBK_BOOKIE_RACK"),
        "sync_interval_ms": ("2000", "zbk.toml"),
        "checkpoint_interval_ms": ("10000", "default"),
    }
    assert {one: (sources[one]["value"], sources[one]["source"]) for one in expected} == expected
    files = call(url, "GET", "/api/v1/bookie/list_disk_file?file_type=journal")
    assert files["journal files"].endswith(".journal")
    own = call(url, "GET", "/api/v1/bookie/info")["bookie_id"]
    call(url, "PUT", f"/api/v1/autorecovery/decommission?bookie_src={own}")
    call(url, "PUT", "/api/v1/zbk/metadata/check")
    assert [one["job_id"] for one in call(url, "GET", "/api/v1/zbk/job/list")] == [1, 2]
