"""``zbk autorecovery`` on a metadata store in a file; nothing runs beside it."""

import json
import re
import threading
from pathlib import Path

import pytest

from tests.support.cli import Run
from tests.support.recorder import Recorder
from zbk.cli.config_options import server_config
from zbk.config import AutorecoveryConfig
from zbk.errors import InvalidOptionError
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.election import AuditorElection
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import AuditorStatus, Cookie
from zbk.system.clock import wall_ms


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = f"sqlite://{tmp_path}/metadata.db"
    store = open_store(uri)
    initialise(store)
    store.close()
    return uri


def test_every_field_of_the_configuration_is_an_option(run: Run) -> None:
    text = run("autorecovery", "run", "--help").output

    for name in AutorecoveryConfig.__struct_fields__:
        assert re.search(f"--{name.replace('_', '-')}[ /]", text), name


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "zbk.toml"
    file.write_text('[autorecovery]\nbrake_hold_ms = "1s"\nledger_check_full = true\n')
    options = {"config_file": file, "metadata": "sqlite:///x", "brake_hold_ms": "3s"}

    config = server_config(AutorecoveryConfig, dict(options))

    assert (config.brake_hold_ms, config.ledger_check_full) == (3_000, True)


def test_a_truth_may_come_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"config_file": None, "metadata": "sqlite:///x"}
    monkeypatch.setenv("ZBK_AUTORECOVERY_LEDGER_CHECK_FULL", "true")
    assert server_config(AutorecoveryConfig, dict(options)).ledger_check_full

    monkeypatch.setenv("ZBK_AUTORECOVERY_LEDGER_CHECK_FULL", "perhaps")
    with pytest.raises(InvalidOptionError, match="true, false"):
        server_config(AutorecoveryConfig, dict(options))


def test_it_is_switched_off_and_on(run: Run, uri: str) -> None:
    def is_enabled() -> bool:
        shown = run("autorecovery", "status", "--metadata", uri, "-o", "json")
        return bool(json.loads(shown.stdout)["enabled"])

    assert run("autorecovery", "disable", "--metadata", uri).exit_code == 0
    assert not is_enabled()
    assert run("autorecovery", "enable", "--metadata", uri).exit_code == 0
    assert is_enabled()


@pytest.mark.parametrize(
    ("command", "is_enabled"), [("disable", False), ("enable", True), ("trigger", True)]
)
def test_programs_are_told_how_it_stands(
    run: Run, uri: str, command: str, is_enabled: bool
) -> None:
    told = run("autorecovery", command, "--metadata", uri, "-o", "json")

    assert json.loads(told.stdout) == {"enabled": is_enabled, "auditor": None}
    assert run("autorecovery", command, "--metadata", uri).stdout == ""


def test_the_delay_is_set_shown_and_unset(run: Run, uri: str) -> None:
    def shown() -> object:
        result = run("autorecovery", "delay", "--metadata", uri, "-o", "json")
        return json.loads(result.stdout)["lost_bookie_delay_ms"]

    assert shown() is None
    assert run("autorecovery", "delay", "10min", "--metadata", uri).exit_code == 0
    assert shown() == 600_000
    assert run("autorecovery", "delay", "default", "--metadata", uri).exit_code == 0
    assert shown() is None
    assert run("autorecovery", "delay", "soon", "--metadata", uri).exit_code != 0


def test_status_counts_tasks_and_shows_the_auditors_words(run: Run, uri: str) -> None:
    store = open_store(uri)
    tasks = UnderreplicationStore(store)
    for ledger_id in (7, 8, 9):
        tasks.report(ledger_id, ["b1"], MissingReason.LOST)
    assert tasks.lock(8, "w1")
    assert tasks.lock(9, "w1")
    assert tasks.mark_unrepairable(9, 0, "no replica is left")
    AuditorNotes(store).tell(
        AuditorStatus(
            candidate_id="a1",
            told_ms=1,
            lost=("b1", "b2"),
            pending=("b2",),
            brake="2 of 3 vanished",
        )
    )

    found = json.loads(run("autorecovery", "status", "--metadata", uri, "-o", "json").stdout)

    assert found["underreplicated_count"] == 2
    assert found["in_repair_count"] == 1
    assert found["unrepairable_count"] == 1
    assert found["lost_bookies"] == ["b1", "b2"]
    assert found["not_reported_yet"] == ["b2"]
    assert found["brake"] == "2 of 3 vanished"
    assert found["auditor"] is None
    assert found["delay_left_ms"] is None
    store.close()


@pytest.mark.parametrize(("left_ms", "text"), [(86_400_000, " h "), (-5_000, "  0 ms; ")])
def test_status_tells_how_long_a_lost_bookie_may_stay_away(
    run: Run, uri: str, left_ms: int, text: str
) -> None:
    store = open_store(uri)
    ends_ms = wall_ms() + left_ms
    AuditorNotes(store).tell(
        AuditorStatus(
            candidate_id="a1", told_ms=1, lost=("b1",), pending=("b1",), delay_ends_ms=ends_ms
        )
    )
    store.close()

    found = json.loads(run("autorecovery", "status", "--metadata", uri, "-o", "json").stdout)
    shown = run("autorecovery", "status", "--metadata", uri).stdout

    assert max(0, ends_ms - wall_ms()) <= found["delay_left_ms"] <= max(0, left_ms)
    (line,) = [line for line in shown.splitlines() if line.startswith("delay left")]
    assert text in line
    assert "zbk autorecovery trigger" in line


def test_the_entries_that_are_reported_are_listed_by_bookie(run: Run, uri: str) -> None:
    store = open_store(uri)
    tasks = UnderreplicationStore(store)
    tasks.report(7, ["b2", "b1"], MissingReason.NOT_WRITTEN, ranges={"b2": [(57, 457), (459, 459)]})

    table = run("ledger", "underreplicated", "--metadata", uri).stdout
    shown = json.loads(run("ledger", "underreplicated", "--metadata", uri, "-o", "json").stdout)

    assert "b2: 57 .. 457, 459" in table
    assert (shown["why"], shown["missing"]) == ("not written", {"b2": [[57, 457], [459, 459]]})
    store.close()


def test_whoisauditor_names_it_or_says_that_there_is_none(run: Run, uri: str) -> None:
    nobody = run("autorecovery", "whoisauditor", "--metadata", uri)
    assert nobody.exit_code == 3
    assert "no process audits" in nobody.stderr

    store = open_store(uri)
    told: Recorder[int | None] = Recorder()
    election = AuditorElection(store, "host-1", told)
    told.wait_last(1)
    assert run("autorecovery", "whoisauditor", "--metadata", uri).stdout == "host-1\n"
    election.close()
    store.close()


def test_a_trigger_hands_out_again_what_could_not_be_repaired(run: Run, uri: str) -> None:
    store = open_store(uri)
    tasks = UnderreplicationStore(store)
    tasks.report(9, ["b1"], MissingReason.LOST)
    assert tasks.lock(9, "w1")
    assert tasks.mark_unrepairable(9, 0, "no replica is left")

    assert run("autorecovery", "trigger", "--metadata", uri).exit_code == 0

    assert list(tasks.list()) == [9]
    store.close()


def test_without_a_cluster_it_says_so(run: Run, tmp_path: Path) -> None:
    result = run("autorecovery", "status", "--metadata", f"sqlite://{tmp_path}/none.db")

    assert result.exit_code != 0
    assert result.stderr


def test_who_switches_it_is_told_what_will_not_happen(run: Run, uri: str) -> None:
    assert (
        "until `zbk autorecovery enable`"
        in run("autorecovery", "disable", "--metadata", uri).stderr
    )
    triggered = run("autorecovery", "trigger", "--metadata", uri)
    assert triggered.exit_code == 0
    assert "begins after `zbk autorecovery enable`" in triggered.stderr
    assert "no process audits now" in triggered.stderr
    assert "no process audits now" in run("autorecovery", "enable", "--metadata", uri).stderr


def test_who_watches_waits_for_an_auditor_that_has_not_looked_at_a_loss_yet(
    run: Run, uri: str
) -> None:
    store = open_store(uri)
    BookieRegistry(store).create_cookie(
        Cookie(
            bookie_id="b1",
            instance_id=instance_id(store),
            journal_dirs=("/j",),
            ledger_dirs=("/l",),
            created_ms=1,
        )
    )
    told: Recorder[int | None] = Recorder()
    election = AuditorElection(store, "host-1", told)
    told.wait_last(1)
    notes = AuditorNotes(store)
    notes.tell(AuditorStatus(candidate_id="host-1", told_ms=1, lost=("b1",), pending=("b1",)))
    done = AuditorStatus(candidate_id="host-1", told_ms=2, lost=("b1",))
    timer = threading.Timer(0.5, lambda: notes.tell(done))
    timer.start()

    watched = run("ledger", "underreplicated", "--watch", "--metadata", uri, "-o", "json")

    timer.join()
    rows = [json.loads(line) for line in watched.stdout.splitlines()]
    assert len(rows) > 1, "it did not end before the auditor had reported what it held"
    assert {row["lost_bookies"] for row in rows} == {1}
    election.close()
    unwatched = run("ledger", "underreplicated", "--watch", "--metadata", uri, "-o", "json")
    assert len(unwatched.stdout.splitlines()) == 1, "nobody will report anything"
    store.close()
