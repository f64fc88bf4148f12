"""The version of the package, and its heading in the changelog."""

import re
import tomllib
from pathlib import Path

import zbk

ROOT = Path(__file__).parents[2]


def test_the_package_takes_its_version_from_the_code() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

    assert "version" not in build["project"]
    path = ROOT / build["tool"]["hatch"]["version"]["path"]
    assert path == ROOT / "zbk" / "version.py"
    assert f'__version__ = "{zbk.__version__}"' in path.read_text("utf-8")


def test_the_changelog_has_a_heading_for_this_version() -> None:
    """What is tagged is told there, under the headings that the file promises."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    first, *releases = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(zbk.__version__)}\] - \d{{4}}-\d\d-\d\d", releases[0])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Formats"}

    for part in text.split("\n## ")[1:]:
        found = re.findall(r"^### (.+)$", part, re.MULTILINE)
        assert len(set(found)) == len(found), part.partition("\n")[0]
        assert set(found) <= kinds
