"""One version, wherever it stands: the package may not import its own root for it."""

import tomllib
from pathlib import Path

import zbk
from zbk.actors.about import VERSION

ROOT = Path(__file__).parents[2]


def test_every_place_says_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert zbk.__version__ == VERSION == project["version"]
