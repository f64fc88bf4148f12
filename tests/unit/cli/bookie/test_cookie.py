"""``zbk bookie cookie``: asking, and what it prints."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run
from zbk.actors.process.bookie_process import init_bookie
from zbk.config import BookieConfig
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.connect import open_store


@pytest.fixture
def config(tmp_path: Path) -> BookieConfig:
    return BookieConfig(
        metadata=f"sqlite://{tmp_path}/metadata.db",
        journal_dir=str(tmp_path / "j"),
        ledger_dir=str(tmp_path / "l"),
    )


@pytest.fixture
def bookie_id(config: BookieConfig) -> str:
    return init_bookie(config)


@pytest.fixture
def places(config: BookieConfig) -> list[str]:
    return [
        "--metadata", config.metadata,
        "--journal-dir", *config.journal_dirs, "--ledger-dir", *config.ledger_dirs,
    ]  # fmt: skip


def test_show_compares_directories_with_metadata(
    run: Run, places: list[str], bookie_id: str, config: BookieConfig
) -> None:
    result = run("bookie", "cookie", "show", *places, "-o", "json")

    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["state"] for row in rows] == ["fits", "fits", "not running"]
    assert {row["bookie_id"] for row in rows} == {bookie_id}
    assert rows[0]["ledger_dirs"] == [config.ledger_dir]
    by_id = run("bookie", "cookie", "show", bookie_id, "--metadata", config.metadata)
    assert bookie_id in by_id.stdout
    alone = run("bookie", "cookie", "show", *places[2:])
    assert "not compared" in alone.stdout


def test_show_tells_the_history_that_the_cluster_knows_and_a_directory_lacks(
    run: Run, places: list[str], bookie_id: str, config: BookieConfig
) -> None:
    store = open_store(config.metadata)
    BookieRegistry(store).raise_incarnation(bookie_id, 4, has_served=True)
    store.close()

    result = run("bookie", "cookie", "show", *places, "-o", "json")

    journal, ledgers, cluster = [json.loads(line) for line in result.stdout.splitlines()]
    assert (cluster["incarnation"], cluster["has_served"]) == (4, True)
    assert (ledgers["incarnation"], ledgers["has_served"]) == (None, None)
    assert ledgers["state"].startswith("fits, but has no incarnation and no last log mark")
    assert "the cluster knows its incarnation 4" in journal["state"]


def test_show_has_the_directories_when_the_metadata_store_does_not_answer(
    run: Run, places: list[str], bookie_id: str, tmp_path: Path
) -> None:
    (tmp_path / "metadata.db-journal").mkdir()  # its disk fails

    result = run("bookie", "cookie", "show", *places, "-o", "json")

    assert result.exit_code == 3
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["bookie_id"], row["state"]) for row in rows] == [(bookie_id, "not compared")] * 2
    assert "disk I/O error" in result.stderr
    assert run("bookie", "cookie", "show", *places[:2]).exit_code == 3


def test_show_says_what_it_needs(run: Run) -> None:
    result = run("bookie", "cookie", "show")

    assert result.exit_code == 1
    assert "give --metadata, or directories" in result.stderr


def test_delete_asks_and_says_what_is_lost(run: Run, bookie_id: str, config: BookieConfig) -> None:
    arguments = ("bookie", "cookie", "delete", bookie_id, "--metadata", config.metadata)

    unasked = run(*arguments)
    assert unasked.exit_code == 2
    assert "give --yes" in unasked.stderr
    result = run(*arguments, "--yes", "-o", "json")
    assert json.loads(result.stdout) == {"bookie_id": bookie_id, "is_deleted": True}
    assert "entries with their only copy there are lost" in result.stderr
    assert run(*arguments, "--yes").exit_code == 1


def test_generate_warns_and_writes(
    run: Run, places: list[str], bookie_id: str, config: BookieConfig
) -> None:
    folder = Path(*config.ledger_dirs)
    cookie = (folder / "cookie").read_bytes()
    (folder / "cookie").unlink()
    arguments = ("bookie", "cookie", "generate", bookie_id, str(folder), *places[:2], "--yes")

    empty = run(*arguments)
    assert (empty.exit_code, "its data were not restored" in empty.stderr) == (6, True)
    (folder / "last_mark").write_bytes(b"")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert "the bookie denies entries that it has acknowledged" in result.stderr
    assert (folder / "cookie").read_bytes() == cookie


def test_commands_without_metadata_name_the_cure(run: Run) -> None:
    assert "start `zbk up`" in run("bookie", "cookie", "delete", "b-1", "--yes").stderr
