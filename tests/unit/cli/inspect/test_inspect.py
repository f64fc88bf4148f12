"""``zbk inspect``: what it prints, and its exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import BOOKIE_ID, KEY
from tests.support.cli import Run
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.journal.record import EntriesRecord, FenceRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches
from zbk.system.files import OsFiles


@pytest.fixture
def bookie(tmp_path: Path) -> Path:
    """Directories of a bookie that ended well, with two ledgers."""
    storage = BookieStorage(
        OsFiles(),
        journal_dir=str(tmp_path / "j"),
        ledger_dir=str(tmp_path / "l"),
        bookie_id=BOOKIE_ID,
        limits=StorageLimits(segment_size=1 << 20),
    )
    (tmp_path / "l").mkdir()
    storage.open()
    for ledger_id in (7, 9):
        batch = batch_of(ledger_id, range(3))
        storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, KEY, LedgerType.PD_JOURNAL
        )
        add_batches(storage.homes, [batch])
        key = LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL)
        storage.journal.append([key, EntriesRecord(batch)])
    storage.homes.ledger(7).index.set_fenced()
    storage.journal.append([FenceRecord(7)])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    storage.close()
    return tmp_path


def only(folder: Path, pattern: str) -> str:
    return str(next(iter(sorted(folder.glob(pattern)))))


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_journal_shows_a_row_a_record_and_never_the_key(run: Run, bookie: Path) -> None:
    path = only(bookie, "j/*.journal")

    result = run("inspect", "journal", path, "-o", "json")

    rows = objects(result.stdout)
    assert result.exit_code == 0, result.output
    assert [row["kind"] for row in rows] == [
        "ledger key", "entries", "ledger key", "entries", "fence", "synced", "synced", "summary",
    ]  # fmt: skip
    assert (rows[1]["ledger_id"], rows[1]["first_entry_id"], rows[1]["last_entry_id"]) == (7, 0, 2)
    assert rows[-1]["verdict"] == "clean"
    assert rows[-1]["synced_sequence"] == 5
    assert KEY.hex() not in result.stdout


def test_ledger_and_limit_choose_rows_and_the_whole_file_is_checked(run: Run, bookie: Path) -> None:
    path = only(bookie, "j/*.journal")

    of_9 = objects(run("inspect", "journal", path, "--ledger", "9", "-o", "json").stdout)
    assert [row.get("ledger_id") for row in of_9] == [9, 9, None]
    first = objects(run("inspect", "journal", path, "--limit", "1", "-o", "json").stdout)
    assert [row["kind"] for row in first] == ["ledger key", "summary"]
    assert first[-1]["record_count"] == 7


def test_entrylog_shows_entries_for_people(run: Run, bookie: Path) -> None:
    path = only(bookie, "l/logs/*.log")

    result = run("inspect", "entrylog", path, "--ledger", "7")

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"file {path}\nOFFSET")
    assert [line.split()[2:5] for line in result.stdout.splitlines()[2:5]] == [
        ["entry", "7", "0"], ["entry", "7", "1"], ["entry", "7", "2"],
    ]  # fmt: skip
    assert "verdict       clean" in result.stdout


def test_index_shows_header_and_ranges(run: Run, bookie: Path) -> None:
    path = only(bookie, "l/index/**/*7.idx")

    rows = objects(run("inspect", "index", path, "-o", "json").stdout)

    assert [row["kind"] for row in rows] == ["range", "summary"]
    assert (rows[0]["first_entry_id"], rows[0]["last_entry_id"]) == (0, 2)
    assert (rows[1]["is_fenced"], rows[1]["ledger_type"]) == (True, "PD_JOURNAL")
    assert rows[1]["key_digest"] not in KEY.hex()


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("journal", "j/*.journal"), ("entrylog", "l/logs/*.log"), ("index", "l/index/**/*.idx")],
)
def test_a_damaged_copy_is_shown_with_the_place_and_exit_code_4(
    run: Run, bookie: Path, kind: str, pattern: str
) -> None:
    content = bytearray(Path(only(bookie, pattern)).read_bytes())
    content[8200 if kind == "journal" else 40] ^= 1
    copy = bookie / "a copy"
    copy.write_bytes(content)

    for output in ("table", "json"):
        result = run("inspect", kind, str(copy), "-o", output, "--limit", "0")
        assert result.exit_code == 4
        assert "fault" in result.stdout
        assert "damaged" in result.stdout
        assert result.stderr == "zbk: 1 of 1 files are damaged\n"


@pytest.mark.parametrize("kind", ["journal", "entrylog", "index"])
def test_a_file_of_something_else_is_damaged_not_a_traceback(
    run: Run, tmp_path: Path, kind: str
) -> None:
    for name, content in {"empty": b"", "text": b"hello\n" * 5_000}.items():
        (tmp_path / name).write_bytes(content)
        result = run("inspect", kind, str(tmp_path / name))
        assert result.exit_code == 4, (name, result.output)
        assert "fault" in result.stdout


def test_a_link_to_a_file_is_followed(run: Run, bookie: Path) -> None:
    (bookie / "link").symlink_to(only(bookie, "l/logs/*.log"))

    assert run("inspect", "entrylog", str(bookie / "link")).exit_code == 0
