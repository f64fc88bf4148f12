"""Which files of a bookie a fault removes."""

import random
from pathlib import Path

import pytest

from tests.chaos.vanishing import Part, vanish

FILES = (
    "journal/cookie",
    "journal/0000000001.journal",
    "ledgers/cookie",
    "ledgers/incarnation",
    "ledgers/lastMark",
    "ledgers/logs/00000001.log",
    "ledgers/logs/00000002.log",
    "ledgers/index/0/1.idx",
    "ledgers/index/0/2.idx",
)


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return [tmp_path / "journal", tmp_path / "ledgers"]


@pytest.mark.parametrize(
    ("part", "count", "suffix"),
    [
        (Part.ALL, len(FILES) - 2, ""),
        (Part.INDEX_FILES, 2, ".idx"),
        (Part.INDEX_FILE, 1, ".idx"),
        (Part.ENTRY_LOG, 1, ".log"),
    ],
)
def test_so_many_files_go_and_the_others_stay(
    directories: list[Path], part: Part, count: int, suffix: str
) -> None:
    gone = vanish(part, directories, random.Random(1))

    left = [path for one in directories for path in one.rglob("*") if path.is_file()]
    assert len(gone) == count
    assert len(left) == len(FILES) - count
    assert not set(left) & set(gone)
    assert all(path.suffix == suffix for path in gone) or not suffix
    assert sum(path.name == "cookie" for path in left) == 2


def test_of_nothing_nothing_goes(tmp_path: Path) -> None:
    for part in Part:
        assert vanish(part, [tmp_path], random.Random(1)) == []
