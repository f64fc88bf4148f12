"""Programs that Python packages bring: linters of Dockerfiles and of compose files."""

from importlib.metadata import files
from pathlib import Path

import pytest


def program_of(package: str, name: str) -> Path:
    """Return a program that a package has installed; skip where the package has none."""
    for file in files(package) or ():
        path = Path(str(file.locate()))
        if path.name == name and path.exists():
            return path.resolve()
    pytest.skip(f"{package} has no program for this machine")
