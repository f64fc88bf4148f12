"""Several directories on the command line: given, taken out of service, renewed, looked after."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY
from tests.support.cli import Run
from zbk.actors.process.bookie_process import init_bookie
from zbk.cli.config_options import server_config
from zbk.config import BookieConfig
from zbk.config.sources import build, convert, read_toml
from zbk.errors import InvalidOptionError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches
from zbk.system.files import OsFiles

NO_FLAGS: dict[str, None] = dict.fromkeys([*BookieConfig.__struct_fields__, "config_file"])


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BookieConfig:
    """Directories of a bookie that has six ledgers, of 50 entries each."""
    for name in ("JOURNAL_DIR", "LEDGER_DIR"):
        monkeypatch.delenv(f"ZBK_BOOKIE_{name}", raising=False)
    config = BookieConfig(
        metadata=f"sqlite://{tmp_path}/metadata.db",
        journal_dir=(str(tmp_path / "j1"), str(tmp_path / "j2")),
        ledger_dir=(str(tmp_path / "l1"), str(tmp_path / "l2")),
    )
    storage = BookieStorage(
        OsFiles(),
        journal_dir=config.journal_dir,
        ledger_dir=config.ledger_dir,
        bookie_id=init_bookie(config),
        limits=StorageLimits(segment_size=1 << 20),
    )
    storage.open()
    for ledger_id in range(6):
        batch = batch_of(ledger_id, range(50))
        storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, KEY, LedgerType.PD_JOURNAL
        )
        add_batches(storage.homes, [batch])
        key = LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL)
        journal = list(storage.journals)[storage.journals.of(ledger_id)]
        journal.append([key, EntriesRecord(batch)])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    storage.close()
    return config


@pytest.fixture
def places(config: BookieConfig) -> list[str]:
    options = ["--metadata", config.metadata]
    for path in config.journal_dirs:
        options += ["--journal-dir", path]
    for path in config.ledger_dirs:
        options += ["--ledger-dir", path]
    return options


# ---------------------------------------------------------------- how they are given


def test_a_file_has_one_path_or_a_list() -> None:
    text = '[bookie]\njournal_dir = "/j"\nledger_dir = ["/l1", "/l2"]\n'
    table = read_toml("zbk.toml", text)["bookie"]

    config = build(BookieConfig, flags={}, environment={}, table=table)

    assert (config.journal_dirs, config.ledger_dirs) == (("/j",), ("/l1", "/l2"))


def test_a_variable_has_colons_between_paths() -> None:
    environment = {"ZBK_BOOKIE_JOURNAL_DIR": "/j", "ZBK_BOOKIE_LEDGER_DIR": "/l1:/l2"}

    config = build(BookieConfig, flags={}, environment=environment, table={"ledger_dir": "/x"})

    assert (config.journal_dirs, config.ledger_dirs) == (("/j",), ("/l1", "/l2"))


def test_a_flag_with_several_paths_wins_whole() -> None:
    flags = NO_FLAGS | {"metadata": "zk://h/zbk", "ledger_dir": ("/l1", "/l2")}

    assert server_config(BookieConfig, flags).ledger_dirs == ("/l1", "/l2")


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["/l", "/l"], "there twice"),
        (["/l", ""], "is empty"),
        ([f"/l{n}" for n in range(9)], "at most 8"),
    ],
)
def test_paths_are_checked(paths: list[str], reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=reason):
        convert(BookieConfig, {"ledger_dir": paths})


def test_without_any_there_are_none() -> None:
    assert BookieConfig().journal_dirs == BookieConfig().ledger_dirs == ()


def test_several_are_shown_as_a_variable_would_have_them(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "zbk.toml"
    file.write_text('[bookie]\nledger_dir = ["/l1", "/l2"]\n')

    assert "/l1:/l2" in run("config", "show", "--config", str(file)).stdout
    rows = run("config", "show", "--config", str(file), "-o", "json").stdout.splitlines()
    (value,) = [json.loads(row)["value"] for row in rows if '"ledger_dir"' in row]
    assert value == ["/l1", "/l2"]


def test_init_makes_all_of_them(run: Run, tmp_path: Path) -> None:
    dirs = {name: str(tmp_path / name) for name in ("j1", "j2", "l1", "l2")}

    made = run(
        *("bookie", "init", "--metadata", f"sqlite://{tmp_path}/m.db"),
        *("--journal-dir", dirs["j1"], "--journal-dir", dirs["j2"]),
        *("--ledger-dir", dirs["l1"], "--ledger-dir", dirs["l2"]),
    )

    assert made.exit_code == 0
    assert {(tmp_path / name / "place").read_text() for name in dirs} == {
        "journal directory 1 of 2\n",
        "journal directory 2 of 2\n",
        "ledger directory 1 of 2\n",
        "ledger directory 2 of 2\n",
    }


# ---------------------------------------------------------------- out of service, and back


def test_a_directory_is_retired_and_renewed(
    run: Run, config: BookieConfig, places: list[str]
) -> None:
    lost = config.ledger_dirs[0]
    shutil.rmtree(lost)
    refused = run("bookie", "sanity", *places)
    assert refused.exit_code == 6
    assert "retire-dir" in refused.output

    retired = run("bookie", "retire-dir", lost, "--yes", *places, "-o", "json")
    assert json.loads(retired.stdout) == {"directory": lost, "is_in_service": False}
    checked = run("bookie", "sanity", *places, "-o", "json")
    assert checked.exit_code == 0
    summary = json.loads(checked.stdout.splitlines()[-1])
    assert summary["out_of_service"] == [lost]
    assert 0 < summary["ledger_count"] < 6
    shown = run("bookie", "cookie", "show", *places, "-o", "json").stdout.splitlines()
    states = {row["place"]: row["state"] for row in map(json.loads, shown)}
    assert states[lost] == "out of service: an operator has taken it out of service"

    missing = run("bookie", "renew-dir", lost, "--yes", *places)
    assert "is the disk mounted" in missing.output
    Path(lost).mkdir()
    renewed = run("bookie", "renew-dir", lost, "--yes", *places, "-o", "json")
    assert json.loads(renewed.stdout) == {"directory": lost, "is_in_service": True}
    assert (
        json.loads(run("bookie", "sanity", *places, "-o", "json").stdout.splitlines()[-1])[
            "out_of_service"
        ]
        == []
    )


@pytest.mark.parametrize("command", ["retire-dir", "renew-dir"])
def test_both_ask_first(run: Run, config: BookieConfig, places: list[str], command: str) -> None:
    if command == "renew-dir":
        run("bookie", "retire-dir", config.journal_dirs[1], "--yes", *places)

    asked = run("bookie", command, config.journal_dirs[1], *places, stdin=b"n\n")

    assert asked.exit_code != 0 or "is_in_service" not in asked.stdout
    noted = (Path(config.journal_dirs[0]) / "out_of_service").exists()
    assert noted == (command == "renew-dir")


# ---------------------------------------------------------------- more of them


def test_a_new_directory_is_added(
    run: Run, config: BookieConfig, places: list[str], tmp_path: Path
) -> None:
    new = tmp_path / "l3"
    more = [*places, "--ledger-dir", str(new)]
    missing = run("bookie", "expand-storage", "--yes", *more)
    assert missing.exit_code == 6
    assert f"{new} is not there" in missing.output
    new.mkdir()

    added = run("bookie", "expand-storage", "--yes", *more, "-o", "json")

    assert added.exit_code == 0, added.output
    shown = json.loads(added.stdout)
    assert (shown["added"], shown["ledger_dirs"]) == ([str(new)], [*config.ledger_dirs, str(new)])
    assert run("bookie", "sanity", *more).exit_code == 0
    assert run("bookie", "sanity", *places).exit_code == 6
    again = run("bookie", "expand-storage", "--yes", *more)
    assert again.exit_code == 1
    assert "none is new" in again.output


# ---------------------------------------------------------------- offline


def test_the_index_of_each_is_made_anew(run: Run, config: BookieConfig, places: list[str]) -> None:
    shutil.rmtree(Path(config.ledger_dirs[1]) / "index")

    rebuilt = run("bookie", "rebuild-index", *places, "-o", "json")

    assert rebuilt.exit_code == 0, rebuilt.output
    rows = [json.loads(line) for line in rebuilt.stdout.splitlines() if line.startswith("{")]
    assert [row["ledger_dir"] for row in rows] == [*reversed(config.ledger_dirs)]
    assert sum(row["entry_count"] for row in rows) == 300
    checked = run("bookie", "sanity", *places, "-o", "json")
    assert checked.exit_code == 0
    assert json.loads(checked.stdout.splitlines()[-1])["ledger_count"] == 6


def test_format_empties_all_of_them(run: Run, config: BookieConfig, places: list[str]) -> None:
    assert run("bookie", "format", "--yes", *places).exit_code == 0
    refused = run("bookie", "sanity", *places)
    left = {
        path.name
        for one in (*config.journal_dirs, *config.ledger_dirs)
        for path in Path(one).iterdir()
    }
    assert left == {"cookie", "place", "lock", "wiped"}
    assert refused.exit_code != 0

    assert run("bookie", "format", "--with-cookie", "--yes", *places).exit_code == 0
    for one in (*config.journal_dirs, *config.ledger_dirs):
        assert not list(Path(one).iterdir())
