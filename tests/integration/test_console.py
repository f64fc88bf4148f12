"""``zbk console`` as a command: it starts, serves, ends, and refuses what it cannot serve."""

import json
import signal
import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import zbk
from tests.support.cluster import Shell, cluster
from tests.support.http import Scrape, ask
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.metrics.table import metrics_of

__all__ = ["cluster"]

TOKEN = "0123456789abcdef"


def test_it_serves_pages_and_the_admin_api_until_it_is_interrupted(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    running = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri}).start(
        "console", "--http", "127.0.0.1:0", "-o", "json",
        "--allow-actions", "--http-token-file", str(token_file),
    )  # fmt: skip
    assert running.stdout is not None
    url = json.loads(running.stdout.readline())["url"]

    first = json.loads(ask(f"{url}/index.json").body)["headline"]
    figures = [first[one] for one in ("writable_count", "ledger_count", "underreplicated_count")]
    assert figures == [3, 0, 0], "the first look has ended"
    assert "for the first time" not in ask(f"{url}/").body
    with zbk.connect(cluster.metadata_uri) as client:
        ledger_id = client.create_ledger().ledger_id
        path = f"{url}/api/v1/ledger/delete?ledger_id={ledger_id}"
        assert ask(path, "DELETE").status == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert json.loads(ask(path, "DELETE", headers).body) == {"deleted": ledger_id}
        assert ledger_id not in list(client.list_ledgers())
    running.send_signal(signal.SIGINT)
    _output, errors = running.communicate(timeout=30)
    assert running.returncode == 0
    action, end = errors.decode().splitlines()
    assert action.endswith("INFO    zbk.admin: DELETE /api/v1/ledger/delete was done")
    assert end == "zbk: stopped"


def test_it_reports_its_own_metrics_and_health(cluster: LocalCluster, tmp_path: Path) -> None:
    """Each metric of a console moves, and is there before."""
    running = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri}).start(
        "console", "--http", "127.0.0.1:0", "-o", "json", "--log-format", "json"
    )
    assert running.stdout is not None
    url = json.loads(running.stdout.readline())["url"]
    try:
        assert Scrape(url).names() == {metric.name for metric in metrics_of("console")}
        assert ask(f"{url}/livez").body == "ok\n"
        assert json.loads(ask(f"{url}/version").body)["process"] == "console"
        unseen = {
            "zbk_build_info",
            "zbk_metadata_connected",
            "zbk_console_samples_total",
            "zbk_console_sample_age_seconds",
            "zbk_console_sample_seconds",
            "zbk_console_survey_seconds",
            "zbk_console_live_views",
        }
        elsewhere = {"zbk_metadata_interruptions_total"}  # unit/metadata/stores
        assert unseen | elsewhere == {metric.name for metric in metrics_of("console")}

        def is_seen() -> bool:
            now = Scrape(url)
            unseen.difference_update({name for name in unseen if now.total(name) > 0})
            return not unseen

        with urlopen(f"{url}/live", timeout=30):  # noqa: S310 - our own
            wait_until(is_seen)
        wait_until(lambda: Scrape(url).total("zbk_console_live_views") == 0)
        verbose = ask(f"{url}/readyz?verbose").body.splitlines()
        assert verbose[:2] == ["[+]started ok", "[+]metadata ok: CONNECTED"]
        assert verbose[2].startswith("[+]figures ok: ")
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=30)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--http", "nonsense"], "give HOST:PORT"),
        (["--http", "TAKEN"], "another process has this port"),
        (["--http", "0.0.0.0:0", "--allow-actions"], "listens on loopback"),
        ([], "none.db"),
    ],
)
def test_an_address_that_cannot_be_served_is_one_line(
    tmp_path: Path, arguments: list[str], text: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = [address if one == "TAKEN" else one for one in arguments]
        store = f"sqlite://{tmp_path}/none.db"
        running = Shell(tmp_path).start("console", "--metadata", store, *words)
        _output, errors = running.communicate(timeout=60)
    assert running.returncode == 1
    assert text in errors.decode()
    assert errors.count(b"\n") == 1


def test_without_its_metadata_store_it_serves_and_says_so(tmp_path: Path) -> None:
    running = Shell(tmp_path).start(
        "console", "--metadata", "zk://127.0.0.1:1/zbk", "--http", "127.0.0.1:0", "-o", "json"
    )
    assert running.stdout is not None
    url = json.loads(running.stdout.readline())["url"]

    def says_so() -> bool:
        with urlopen(f"{url}/", timeout=10) as answer:  # noqa: S310 - our own
            return b"the metadata store does not answer" in answer.read()

    wait_until(says_so)
    ready = ask(f"{url}/readyz?verbose")
    assert ready.status == 200, "a service manager leaves the page that explains it"
    assert "[i]metadata failed: LOST" in ready.body
    wait_until(lambda: Scrape(url).value("zbk_console_samples_total", result="failed") > 0)
    assert Scrape(url).total("zbk_metadata_connected") == 0
    (event,) = map(json.loads, ask(f"{url}/events.jsonl").body.splitlines())
    assert (event["lane"], event["kind"]) == ("metadata", "store silent"), "one, of many looks"
    with pytest.raises(HTTPError, match="503"):
        urlopen(f"{url}/ledgers", timeout=20)  # noqa: S310
    running.send_signal(signal.SIGTERM)
    _output, errors = running.communicate(timeout=30)
    assert running.returncode == 0
    assert b"Traceback" not in errors


@pytest.mark.parametrize("is_allowed", [True, False])
def test_the_actions_of_a_local_cluster_are_those_of_its_bookies_too(
    tmp_path: Path, is_allowed: bool
) -> None:
    """The console has the token of the bookies, so its pages show what they report."""
    (tmp_path / "token").write_text(TOKEN)
    running = Shell(tmp_path).start(
        "up", "--bookies", "1", "--no-autorecovery", "--data", "data", "--console", "127.0.0.1:0",
        "--http-token-file", "token", "-o", "json", *(["--allow-actions"] if is_allowed else []),
    )  # fmt: skip
    assert running.stdout is not None
    told = json.loads(running.stdout.readline())
    (bookie,) = told["bookies"]

    def shows_options() -> bool:
        with urlopen(f"{told['console']}/config.json", timeout=20) as answer:  # noqa: S310 - our own
            found = json.loads(answer.read())["bookies"]
        return bool(found["options"]) and not found["silent"]

    wait_until(shows_options)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for url in (bookie["http"], told["console"]):
        path = f"{url}/api/v1/bookie/gc?bookie_id={bookie['bookie_id']}"
        assert ask(path, "PUT").status == 401
        assert ask(path, "PUT", headers).status == (200 if is_allowed else 403)
    running.send_signal(signal.SIGINT)
    _output, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (0, b"zbk: stopped\n")
    log = (tmp_path / "data" / "console.log").read_text("utf-8")
    assert ("PUT /api/v1/bookie/gc was done" in log) is is_allowed
