"""Metrics and health of real processes."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import Shell, lone_ledger
from tests.support.http import Scrape, ask, url_in


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
