"""Which code a campaign ran: campaigns with the same digest add up."""

import hashlib
import sys
from pathlib import Path
from typing import Final

from tests.simulation import run

ROOT: Final = Path(run.__file__).parents[2]


def simulated_files() -> list[Path]:
    """Return the sources of zbk and of the tests that this process has imported, sorted."""
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    below = {
        Path(name).relative_to(ROOT) for name in loaded if name and name.startswith(f"{ROOT}/")
    }
    return sorted(path for path in below if path.parts[0] in {"zbk", "tests"})


def digest_of(paths: list[Path], root: Path = ROOT) -> str:
    """Return 16 hexadecimal digits that stand for the names and contents of files.

    A run is a function of its seed and of the files that it imports.
    """
    digest = hashlib.sha256()
    for path in paths:
        content = hashlib.sha256((root / path).read_bytes()).hexdigest()
        digest.update(f"{path} {content}\n".encode())
    return digest.hexdigest()[:16]
