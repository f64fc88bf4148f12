"""`make docs`: no warning, nothing missing, and no request to another host."""

import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import click
import pytest

import zbk
from docs.generator.benchmark_tables import CHOSEN
from docs.generator.commands import walk
from docs.generator.hook import PARTS
from tests.support.command_samples import ARGUMENTS, UNTIL_STOPPED
from tests.support.document import ROOT
from zbk.admin.operations import OPERATIONS
from zbk.cli.main import cli
from zbk.config import SECTIONS
from zbk.config.option import options_of
from zbk.errors import ERROR_BY_CODE
from zbk.metrics.alerts import ALERTS

OUTSIDE = re.compile(
    r"""(?:src|srcset)=["'](?:https?:)?//|url\(["']?(?:https?:)?//|@import ["']http"""
)


AS_MAKE_DOCS = """
import os, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in others:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

others = set(sys.argv[1:])
sys.meta_path.insert(0, Missing())
from mkdocs.__main__ import cli
cli(["build", "--quiet", "--site-dir", os.environ["HANDBOOK"]])
"""
"""Builds with what `make docs` installs in a fresh clone; the tests have more."""


def other_modules() -> list[str]:
    """Return the installed modules of distributions that `make docs` does not install."""
    text = (ROOT / "requirements" / "docs.txt").read_text()
    installed = {*re.findall(r"^[\w.-]+(?===)", text, re.MULTILINE), "zbk", "setuptools"}
    found = {one.lower().replace("_", "-") for one in installed}
    return [
        module
        for module, distributions in packages_distributions().items()
        if found.isdisjoint(one.lower().replace("_", "-") for one in distributions)
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built handbook; the build is strict."""
    folder = tmp_path_factory.mktemp("handbook")
    done = subprocess.run(
        [sys.executable, "-c", AS_MAKE_DOCS, *other_modules()],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "HANDBOOK": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_no_page_requests_anything_from_another_host(site: Path) -> None:
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = path.read_text()
        assert OUTSIDE.search(text) is None, path.name
        assert 'class="mermaid"' not in text, path.name  # the theme would fetch its program
        for tag in re.findall(r"<link[^>]*>", text):
            assert not re.search(r'href="(https?:)?//', tag), f"{path.name}: {tag}"


def test_runbooks_of_alerts_are_where_their_links_lead(site: Path) -> None:
    text = (site / "runbooks.html").read_text()
    for alert in ALERTS:
        assert f'id="{alert.name.lower()}"' in text


def test_every_public_name_is_on_the_page_of_the_python_api(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text()
    errors = {error.__name__ for error in ERROR_BY_CODE.values()}
    for name in set(zbk.__all__) - errors:
        assert re.search(rf'<h3 id="zbk\.[\w.]*{name}"', text), name


def test_every_picture_of_a_page_has_a_text(site: Path) -> None:
    for path in site.rglob("*.html"):
        for tag in re.findall(r"<img[^>]*>", path.read_text()):
            assert re.search(r'alt="[^"]{10,}"', tag), f"{path.name}: {tag}"


def test_commands_options_and_errors_are_complete() -> None:
    commands = PARTS["commands"]()
    for name in ARGUMENTS.keys() | UNTIL_STOPPED:
        assert f" zbk {name} {{" in commands, name
    options = PARTS["options"]()
    for config_type in SECTIONS.values():
        for key in options_of(config_type):
            assert f"| `{key}` |" in options, key
    operations = PARTS["operations"]()
    for operation in OPERATIONS:
        assert f"`{operation.method} {operation.path}`" in operations
    errors = PARTS["errors"]()
    for code, error in ERROR_BY_CODE.items():
        assert f"### {code} {error.__name__} " in errors


def test_the_figures_of_benchmarks_are_those_that_were_saved() -> None:
    report = (ROOT / "benchmarks" / "README.md").read_text()
    rows = [line for line in PARTS["benchmarks"]().splitlines()[2:] if line]
    assert len(rows) == len(CHOSEN)
    for row in rows:
        title, zbk, floor, _ratio = (cell.strip() for cell in row.strip("|").split("|"))
        (line,) = (one for one in report.splitlines() if one.startswith(f"| {title} |"))
        assert f"| {floor} | {zbk} |" in line
    peers = PARTS["peers"]()
    assert "| load | zbk |" in peers
    assert "redis" in peers


def test_every_command_has_an_operation_or_a_reason_why_not() -> None:
    page = (ROOT / "docs" / "reference" / "admin-api.md").read_text()
    table = page.partition("## What only the command line does")[2]
    left_out = set(re.findall(r"`(zbk [a-z -]+)`", table))
    offered = {command for operation in OPERATIONS for command in operation.commands}
    found = {
        context.command_path
        for command, context in walk(cli, None, "zbk")
        if not isinstance(command, click.Group)
    }
    assert offered <= found
    for path in sorted(found):
        words = path.split()
        parents = {" ".join(words[:count]) for count in range(2, len(words) + 1)}
        assert path in offered or parents & left_out, f"{path}: offer it, or say why not"
    assert not offered & left_out - {"zbk ledger cat", "zbk config show"}
