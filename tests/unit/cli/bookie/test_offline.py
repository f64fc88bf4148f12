"""``zbk bookie sanity``, ``rebuild-index``, ``format``: on real files, without a running bookie."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY
from tests.support.cli import Run
from zbk.actors.process.bookie_process import init_bookie
from zbk.config import BookieConfig
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.connect import open_store
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.identity import lock_directory, next_incarnation
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches
from zbk.system.files import OsFiles


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    config = BookieConfig(
        metadata=f"sqlite://{tmp_path}/metadata.db",
        journal_dir=str(tmp_path / "j"),
        ledger_dir=str(tmp_path / "l"),
    )
    bookie_id = init_bookie(config)
    storage = BookieStorage(
        OsFiles(),
        journal_dir=config.journal_dir,
        ledger_dir=config.ledger_dir,
        bookie_id=bookie_id,
        limits=StorageLimits(segment_size=1 << 20),
    )
    storage.open()
    batch = batch_of(7, range(50))
    storage.homes.place(7).home.cache.set_ledger_key(7, KEY, LedgerType.PD_JOURNAL)
    add_batches(storage.homes, [batch])
    key = LedgerKeyRecord(7, KEY, LedgerType.PD_JOURNAL)
    storage.journal.append([key, EntriesRecord(batch)])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    storage.close()
    return [
        "--metadata", config.metadata,
        "--journal-dir", *config.journal_dirs, "--ledger-dir", *config.ledger_dirs,
    ]  # fmt: skip


def test_a_rebuild_refuses_a_password_file_without_a_password(
    run: Run, places: list[str], tmp_path: Path
) -> None:
    (tmp_path / "secret").touch()

    result = run("bookie", "rebuild-index", "--password-file", str(tmp_path / "secret"), *places)

    assert result.exit_code == 2
    assert "holds no password" in " ".join(result.stderr.split())


def test_a_lost_index_is_found_rebuilt_and_found_good(
    run: Run, places: list[str], tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "l" / "index")

    lost = run("bookie", "sanity", *places)
    assert lost.exit_code == 4
    assert "is missing" in lost.stdout
    rebuilt = run("bookie", "rebuild-index", *places, "-o", "json")
    assert rebuilt.exit_code == 0, rebuilt.output
    report = json.loads(rebuilt.stdout)
    assert (report["entry_count"], report["ledger_count"], report["fenced_ids"]) == (50, 1, [])
    good = run("bookie", "sanity", *places, "-o", "json")
    assert good.exit_code == 0, good.output
    summary = json.loads(good.stdout)
    assert (summary["entry_count"], summary["problem_count"]) == (50, 0)


def claim(places: list[str]) -> None:
    """Record in the cluster that the bookie has served."""
    store = open_store(places[1])
    registry = BookieRegistry(store)
    (bookie_id,) = registry.cookies()
    assert registry.raise_incarnation(bookie_id, 1, has_served=True)
    store.close()


def fail_metadata(tmp_path: Path) -> None:
    """Break the disk of the metadata store."""
    (tmp_path / "metadata.db-journal").mkdir()


def test_files_that_are_gone_are_found_by_what_the_cluster_knows(
    run: Run, places: list[str], tmp_path: Path
) -> None:
    claim(places)
    next_incarnation(OsFiles(), str(tmp_path / "l"))
    good = run("bookie", "sanity", *places, "-o", "json")
    assert good.exit_code == 0, good.output
    assert json.loads(good.stdout)["is_history_compared"]
    assert good.stderr == ""
    for name in ("j", "l"):
        for path in (tmp_path / name).rglob("*"):
            if path.is_file() and path.name != "cookie":
                path.unlink()

    lost = run("bookie", "sanity", *places, "-o", "json")
    unasked = run("bookie", "sanity", *places[2:], "-o", "json")

    assert lost.exit_code == 4
    problems = [json.loads(line) for line in lost.stdout.splitlines()[:-1]]
    assert [one["path"] for one in problems] == [str(tmp_path / "l"), str(tmp_path / "j")]
    assert "no last log mark, but the cluster knows its incarnation 1" in problems[0]["reason"]
    assert unasked.exit_code == 0, "nobody else knows"
    assert not json.loads(unasked.stdout.splitlines()[-1])["is_history_compared"]
    assert "were not compared with the cluster's metadata: give --metadata" in unasked.stderr


def test_a_metadata_store_that_does_not_answer_leaves_the_files_to_be_checked(
    run: Run, places: list[str], tmp_path: Path
) -> None:
    fail_metadata(tmp_path)

    unanswered = run("bookie", "sanity", *places, "-o", "json")

    assert unanswered.exit_code == 3
    summary = json.loads(unanswered.stdout)
    assert (summary["entry_count"], summary["is_history_compared"]) == (50, False)
    assert "were not compared" in unanswered.stderr
    assert "disk I/O error" in unanswered.stderr
    (tmp_path / "l" / "last_mark").write_bytes(b"")
    assert run("bookie", "sanity", *places).exit_code == 4


def test_damage_that_is_left_has_an_exit_code(run: Run, places: list[str], tmp_path: Path) -> None:
    log = next((tmp_path / "l" / "logs").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)

    checked = run("bookie", "sanity", *places, "-o", "json")
    rebuilt = run("bookie", "rebuild-index", *places)

    assert checked.exit_code == rebuilt.exit_code == 4
    assert json.loads(checked.stdout.splitlines()[0])["path"] == str(log)
    assert "are in the old index only" in rebuilt.stderr


def test_commands_for_a_stopped_bookie_leave_a_running_one_alone(
    run: Run, places: list[str], tmp_path: Path
) -> None:
    lock = lock_directory(OsFiles(), str(tmp_path / "l"))

    for command in ("sanity", "rebuild-index", "format"):
        arguments = ["--yes"] if command == "format" else []
        result = run("bookie", command, *places, *arguments)
        assert result.exit_code == 6, command
        assert "in use" in result.stderr
    lock.close()


def test_format_asks_and_keeps_the_id(run: Run, places: list[str], tmp_path: Path) -> None:
    unasked = run("bookie", "format", *places)
    assert (unasked.exit_code, "give --yes" in unasked.stderr) == (2, True)
    assert (tmp_path / "l" / "index").exists()

    assert run("bookie", "format", *places, "--yes").exit_code == 0

    assert not (tmp_path / "l" / "index").exists()
    assert (tmp_path / "l" / "cookie").exists()
    assert (tmp_path / "l" / "wiped").exists()


def test_format_with_cookie_makes_room_for_another_bookie(
    run: Run, places: list[str], tmp_path: Path
) -> None:
    old = run("bookie", "init", *places)
    assert old.exit_code == 6

    result = run("bookie", "format", *places, "--with-cookie", "--yes", "-o", "json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["is_cookie_removed"]
    assert list((tmp_path / "l").iterdir()) == []
    assert run("bookie", "init", *places).exit_code == 0


def test_format_with_cookie_needs_metadata(run: Run, places: list[str]) -> None:
    result = run("bookie", "format", *places[2:], "--with-cookie", "--yes")

    assert (result.exit_code, "needs the cluster's metadata" in result.stderr) == (1, True)


def test_format_does_not_follow_links(run: Run, places: list[str], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_bytes(b"x")
    (tmp_path / "l" / "link").symlink_to(tmp_path / "elsewhere")

    assert run("bookie", "format", *places, "--yes").exit_code == 0
    assert (tmp_path / "elsewhere" / "kept").exists()
    assert not (tmp_path / "l" / "link").is_symlink()
