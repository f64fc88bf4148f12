"""Files of a stopped bookie that vanish: a disk that was wiped, an fsck that removed what it found.

The cookies stay, so the bookie is itself. What it must not do is serve as if nothing was missing.
"""

import random
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from zbk.storage.directory.identity import COOKIE_NAME


class Part(StrEnum):
    """What vanishes."""

    ALL = "everything but the cookies"
    INDEX_FILES = "all index files"
    INDEX_FILE = "an index file"
    ENTRY_LOG = "an entry log"


def vanish(part: Part, directories: Sequence[Path], dice: random.Random) -> list[Path]:
    """Remove files below the directories of a bookie; return which, sorted."""
    files = sorted(path for one in directories for path in one.rglob("*") if path.is_file())
    gone: list[Path]
    match part:
        case Part.ALL:
            gone = [path for path in files if path.name != COOKIE_NAME]
        case Part.INDEX_FILES:
            gone = [path for path in files if path.suffix == ".idx"]
        case Part.INDEX_FILE:
            gone = _one([path for path in files if path.suffix == ".idx"], dice)
        case Part.ENTRY_LOG:
            logs = [path for path in files if path.suffix == ".log" and path.parent.name == "logs"]
            gone = _one(logs, dice)
    for path in gone:
        path.unlink()
    return gone


def _one(files: list[Path], dice: random.Random) -> list[Path]:
    return [dice.choice(files)] if files else []
