"""Metrics and health of real processes."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import Shell, lone_ledger
from tests.support.http import Scrape, ask, url_in
from zbk.cluster.local import LocalCluster
from zbk.metrics.table import METRICS


@pytest.fixture(scope="module")
def bookie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """One bookie by hand: its metadata and the URL in its READY line."""
    folder: Path = tmp_path_factory.mktemp("bookie")
    metadata = f"sqlite://{folder}/metadata.db"
    shell = Shell(folder, {"ZBK_METADATA": metadata})
    directories = ("--journal-dir", "b/journal", "--ledger-dir", "b/ledgers")
    shell.run("bookie", "init", *directories)
    arguments = ("bookie", "run", *directories, "--listen", "tcp://127.0.0.1:0")
    with shell.start(*arguments, "--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        lines = (line.decode() for line in iter(process.stderr.readline, b""))
        ready = next(line for line in lines if "READY" in line)
        yield metadata, url_in(ready)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(30) == 0


def test_a_bookie_serves_its_health_and_version(bookie: tuple[str, str]) -> None:
    _metadata, url = bookie
    assert ask(f"{url}/livez").body == "ok\n"
    ready = ask(f"{url}/readyz?verbose")
    assert ready.status == 200
    assert ready.body.splitlines()[:3] == [
        "[+]started ok",
        "[+]registered ok: REGISTERED",
        "[+]metadata ok: CONNECTED",
    ]
    assert json.loads(ask(f"{url}/version").body)["version"] == zbk.__version__


def test_the_registration_names_the_endpoint(bookie: tuple[str, str]) -> None:
    metadata, url = bookie
    with zbk.connect(metadata) as client:
        (found,) = client.list_bookies()
        assert found.http == url


def test_an_append_moves_the_metrics(bookie: tuple[str, str]) -> None:
    metadata, url = bookie
    before = Scrape(url)
    assert before.value("zbk_build_info", version=zbk.__version__) == 1
    with zbk.connect(metadata) as client, lone_ledger(client) as ledger:
        ledger.append_many([b"entry"] * 10).result()
    after = Scrape(url)
    name = "zbk_bookie_added_entries_total"
    assert after.value(name, type="pd_journal") - before.value(name, type="pd_journal") == 10
    assert after.value(name, type="vd_journal") == 0
    fsyncs = "zbk_journal_fsync_seconds_count"
    assert after.value(fsyncs) > before.value(fsyncs)


def test_a_lone_append_costs_a_bookie_few_observations(bookie: tuple[str, str]) -> None:
    """Each is 0.1 us: with the readings of the clock, 3 us in all processes of a 3/3/2 append."""
    metadata, url = bookie

    def observation_count() -> float:
        scrape = Scrape(url)
        names = [one.name for one in METRICS if one.kind == "histogram"]
        return sum(scrape.total(name) for name in names if name in scrape.names())

    # a writer that is idle for 2 ms would send its LAC, which is observed as well
    with zbk.connect(metadata, explicit_lac_ms=0) as client, lone_ledger(client) as ledger:
        ledger.append(b"entry")
        before = observation_count()
        for _ in range(100):
            ledger.append(b"entry")
        observed_count = observation_count() - before
    assert 300 <= observed_count < 6 * 100  # five


@pytest.fixture
def hangups() -> Iterator[None]:
    """Processes hear SIGHUP, though the tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
def test_sighup_applies_the_log_level_and_names_what_needs_a_restart(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": f"sqlite://{tmp_path}/metadata.db"})
    config = tmp_path / "zbk.toml"
    bookie = '[bookie]\njournal_dir = "b/journal"\nledger_dir = "b/ledgers"\nrack = "{}"\n'
    config.write_text(bookie.format("r1"))
    shell.run("bookie", "init", "--config", str(config))
    arguments = ("bookie", "run", "--config", str(config), "--listen", "tcp://127.0.0.1:0")
    with shell.start(*arguments, "--log-format", "json") as process:
        assert process.stderr is not None
        lines = (json.loads(line) for line in iter(process.stderr.readline, b""))
        ready = next(line for line in lines if line["event"] == "bookie.ready")
        assert ask(f"{ready['http']}/readyz").status == 200
        config.write_text(bookie.format("r2") + '[log]\nlevel = "warning"\n')
        process.send_signal(signal.SIGHUP)
        told = next(line for line in lines if line["event"] == "config.reloaded")
        assert told["need_restart"] == ["bookie.rack"]
        assert told["log_level"] == "warning"
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(30) == 0


def test_the_processes_of_a_local_cluster_have_ports_of_their_own(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "data", bookie_count=2) as cluster:
        urls = [bookie.http for bookie in cluster.bookies]
        assert len(set(urls)) == 2
        assert all(ask(f"{url}/livez").status == 200 for url in urls)
    off = LocalCluster(tmp_path / "off", bookie_count=2, bookie_options={"http": "off"})
    with off as cluster:
        assert [bookie.http for bookie in cluster.bookies] == ["", ""]


def test_a_port_that_is_taken_is_one_clear_line(bookie: tuple[str, str], tmp_path: Path) -> None:
    metadata, url = bookie
    shell = Shell(tmp_path, {"ZBK_METADATA": metadata})
    taken = url.removeprefix("http://")
    failed = shell.run("autorecovery", "run", "--http", taken, exit_code=1)
    assert "cannot listen there: Address already in use" in failed.stderr.decode()
    assert b"Traceback" not in failed.stderr
