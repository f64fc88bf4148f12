"""Options of a running bookie change over HTTP and by SIGHUP, and directories are added."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import zbk
from tests.support.cluster import Shell, lone_ledger
from tests.support.http import Scrape, ask
from tests.support.json_schema import check_answer
from tests.support.waiting import wait_until
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.stores.connect import open_store
from zbk.protocol.repair.audit_events import CheckKind

CONFIG = "/api/v1/config/server_config"


class Served:
    """A bookie process with one line of its log for each event."""

    def __init__(self, shell: Shell, config: Path, *more: str) -> None:
        self.process = shell.start(
            *("bookie", "run", "--config", str(config), "--listen", "tcp://127.0.0.1:0"),
            *("--log-format", "json", "--allow-actions", *more),
        )
        self.http = self.event("bookie.ready")["http"]

    def event(self, name: str) -> dict[str, Any]:
        """Wait for an event of the log; return it."""
        assert self.process.stderr is not None
        lines = (json.loads(line) for line in iter(self.process.stderr.readline, b""))
        found: dict[str, Any] = next(line for line in lines if line["event"] == name)
        return found

    def ask(self, method: str, path: str, status: int = 200, **body: object) -> Any:  # noqa: ANN401 - JSON
        """Return an answer, which must have this status."""
        text = json.dumps(body).encode() if body else None
        answer = ask(f"{self.http}{path}", method, body=text)
        assert answer.status == status, answer.body
        return json.loads(answer.body)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "zbk.toml"
    path.write_text(text())
    return path


def text(ledger_dir: str = '"b/l1"', more: str = "") -> str:
    return f'[bookie]\njournal_dir = "b/j1"\nledger_dir = {ledger_dir}\n{more}'


@contextmanager
def serve(tmp_path: Path, config: Path, *more: str) -> Iterator[Served]:
    """Run a bookie until the block ends; it must end well."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    shell = Shell(tmp_path, {"ZBK_METADATA": f"sqlite://{tmp_path}/metadata.db"})
    shell.run("bookie", "init", "--config", str(config))
    served = Served(shell, config, *more)
    yield served
    served.process.send_signal(signal.SIGTERM)
    try:
        _, rest = served.process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        served.process.kill()
        raise
    finally:
        signal.signal(signal.SIGHUP, before)
    assert served.process.returncode == 0, rest


@pytest.fixture
def bookie(tmp_path: Path, config: Path) -> Iterator[Served]:
    with serve(tmp_path, config) as served:
        yield served


def test_live_options_change_over_http_and_by_sighup(bookie: Served, config: Path) -> None:
    def round_count() -> int:
        count: int = bookie.ask("GET", "/api/v1/bookie/gc_details")["gc_round_count"]
        return count

    assert round_count() == 0
    changed = bookie.ask("PUT", CONFIG, gc_interval_ms="50ms", disk_readonly_free="1 MiB")
    assert changed == {"gc_interval_ms": "50", "disk_readonly_free": "1 MiB"}
    wait_until(lambda: round_count() > 2, what="rounds of garbage collection")
    assert bookie.ask("GET", CONFIG)["gc_interval_ms"] == "50"
    source = bookie.ask("GET", "/api/v1/zbk/config/sources")["gc_interval_ms"]["source"]
    assert source == "admin API"

    refused = bookie.ask("PUT", CONFIG, 400, gc_interval_ms="50ms", rack="r2")
    assert "rack" in refused["error"]
    assert "needs a restart" in refused["error"]
    bookie.ask("PUT", CONFIG, 400, gc_interval_ms="soon")
    bookie.ask("PUT", CONFIG, 400, scrub_rate_size=-1)

    config.write_text(text(more='rack = "r2"\nscrub_rate_size = "1 MiB"\n'))
    bookie.process.send_signal(signal.SIGHUP)
    told = bookie.event("config.reloaded")
    assert told["applied"] == [
        "bookie.disk_readonly_free",
        "bookie.gc_interval_ms",
        "bookie.scrub_rate_size",
    ]
    assert told["need_restart"] == ["bookie.rack"]
    shown = bookie.ask("GET", CONFIG)
    assert (shown["gc_interval_ms"], shown["scrub_rate_size"]) == ("900000", str(1 << 20))


def test_live_options_of_the_autorecovery_in_a_bookie_change_too(
    tmp_path: Path, config: Path
) -> None:
    rare = text(more='[autorecovery]\nreplicas_check_interval_ms = "1h"\nworker_count = {}\n')
    name = "autorecovery.replicas_check_interval_ms"
    config.write_text(rare.format(2))
    with (
        serve(tmp_path, config, "--autorecovery") as bookie,
        closing(open_store(f"sqlite://{tmp_path}/metadata.db")) as store,
    ):

        def ended_ms() -> int:
            return AuditorNotes(store).check_times().get(CheckKind.REPLICAS, 0)

        wait_until(lambda: ended_ms() > 0, 60, "the check after the start")
        first_ms = ended_ms()

        assert bookie.ask("PUT", CONFIG, 200, **{name: "100ms"}) == {name: "100"}
        wait_until(lambda: ended_ms() > first_ms + 1_000, 60, "checks at the new interval")
        assert bookie.ask("GET", CONFIG)[name] == "100"
        shown = bookie.ask("GET", "/api/v1/zbk/config/sources")[name]
        assert shown == {"value": "100", "source": "admin API"}
        refused = bookie.ask("PUT", CONFIG, 400, **{"autorecovery.worker_count": 3})
        assert "needs a restart" in refused["error"]

        config.write_text(rare.format(3))
        bookie.process.send_signal(signal.SIGHUP)
        told = bookie.event("config.reloaded")
        assert told["applied"] == [name]
        assert told["need_restart"] == ["autorecovery.worker_count"]
        assert bookie.ask("GET", CONFIG)[name] == "3600000"


def test_a_bookie_without_autorecovery_has_none_of_its_options(bookie: Served) -> None:
    assert not any("autorecovery" in name for name in bookie.ask("GET", CONFIG))
    given = {"autorecovery.replication_rate_size": 0, "gc_interval_ms": 50}
    refused = bookie.ask("PUT", CONFIG, 400, **given)
    assert "--autorecovery" in refused["error"]
    assert bookie.ask("GET", CONFIG)["gc_interval_ms"] == "900000"


def test_a_full_disk_is_one_by_the_limits_in_use(bookie: Served) -> None:
    """The disk of this test is not full: the limit makes it so."""
    assert not bookie.ask("GET", "/api/v1/bookie/state")["readOnly"]
    bookie.ask("PUT", CONFIG, disk_readonly_free=2 * shutil.disk_usage("/").total)
    wait_until(lambda: bookie.ask("GET", "/api/v1/bookie/state")["readOnly"], what="read-only")
    bookie.ask("PUT", CONFIG, disk_readonly_free=0, disk_warn_free=0)
    wait_until(lambda: not bookie.ask("GET", "/api/v1/bookie/state")["readOnly"], 60, "writable")


def test_directories_are_added_while_the_process_runs(
    bookie: Served, config: Path, tmp_path: Path
) -> None:
    path = "/api/v1/bookie/expand_storage"
    with zbk.connect(f"sqlite://{tmp_path}/metadata.db") as client:
        options = {"ensemble_size": 1, "write_quorum_size": 1, "ack_quorum_size": 1}
        with client.create_ledger(**options) as ledger:  # type: ignore[arg-type] # sizes
            ledger.append(b"before")

    assert "none is new" in bookie.ask("PUT", path, 400)["error"]
    config.write_text(text('["b/l1", "b/l2"]'))
    assert "b/l2 is not there" in bookie.ask("PUT", path, 500)["error"]
    (tmp_path / "b/l2").mkdir()

    added = bookie.ask("PUT", path)

    check_answer("PUT", path, added)
    assert added["added"] == ["b/l2"]
    assert bookie.event("bookie.expanded")["directories"] == "b/l2"
    bookie.event("bookie.ready")
    assert bookie.ask("GET", CONFIG)["ledger_dir"] == "('b/l1', 'b/l2')"
    with zbk.connect(f"sqlite://{tmp_path}/metadata.db") as client:
        assert [one.payload for one in client.open_ledger(ledger.ledger_id).read(0, 0)] == [
            b"before"
        ]
        for _ in range(4):
            with client.create_ledger(**options) as later:  # type: ignore[arg-type] # sizes
                later.append(b"after")
    wait_until(lambda: any((tmp_path / "b/l2/logs").iterdir()), what="entries in the new one")


def test_audit_counts_go_on_after_a_restart_in_the_process(config: Path, tmp_path: Path) -> None:
    """Those of the bookie and of its admin API, which write into one file."""
    log = tmp_path / "audit.log"
    with serve(tmp_path, config, "--audit-log", str(log)) as bookie:
        config.write_text(text('["b/l1", "b/l2"]'))
        (tmp_path / "b/l2").mkdir()
        bookie.ask("PUT", "/api/v1/bookie/expand_storage")
        bookie.event("bookie.ready")
        bookie.ask("PUT", CONFIG, gc_interval_ms="50ms")
        with zbk.connect(f"sqlite://{tmp_path}/metadata.db") as client:
            lone_ledger(client).append(b"")

        def counts() -> tuple[int, int]:
            written = Scrape(bookie.http).value("zbk_audit_records_total", result="written")
            return int(written), len(log.read_text().splitlines())

        wait_until(lambda: counts()[1] >= 3, what="a line of each")
        wait_until(lambda: len({*counts()}) == 1, what="as many counts as lines")
