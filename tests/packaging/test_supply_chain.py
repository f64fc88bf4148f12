"""What is installed with zbk: listed in a bill of materials, and only by the hashes of the lock."""

import json
import re
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import zbk
from tests.packaging.sbom import LOCKED, make_tool, write_bill
from tests.support.distributions import ROOT, make_environment, run_pip

LOCK = ROOT / "requirements" / "run.txt"
VICTIM = "pykka"
"""A package with one wheel, which is for all machines: another file cannot take its place."""


def locked_here() -> dict[str, str]:
    """Return the versions of the lock that CPython installs on Linux."""
    lines = re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)(.*)$", LOCK.read_text(), re.MULTILINE)
    elsewhere = ("pypy", "win32")
    return {
        name: version for name, version, more in lines if not any(one in more for one in elsewhere)
    }


@pytest.mark.package
def test_the_bill_of_materials_names_what_is_locked(tmp_path: Path) -> None:
    tool = make_tool(tmp_path / "tool")
    path = write_bill(tmp_path, tool)

    text = path.read_text()
    bill = json.loads(text)
    assert (bill["bomFormat"], path.name) == ("CycloneDX", f"zbk-{zbk.__version__}.cdx.json")
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"]) == ("zbk", zbk.__version__)
    found = {str(canonicalize_name(one["name"])): one["version"] for one in bill["components"]}
    assert found == locked_here()
    assert [one["name"] for one in bill["components"] if not one.get("licenses")] == []
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert f"{VICTIM}=={found[VICTIM]}" in needs[root["bom-ref"]]
    for private in (str(Path.home()), str(tmp_path), "file:", "/tmp"):  # noqa: S108 - not used
        assert private not in text
    assert write_bill(tmp_path / "again", tool).read_text() == text


@pytest.mark.package
def test_one_changed_hash_ends_the_installation(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv", has_pip=False)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    before = sorted(one.name for one in packages.iterdir())
    report = tmp_path / "report.json"
    run_pip(
        environment, *LOCKED, str(LOCK), "--dry-run", "--report", str(report)
    ).check_returncode()
    files = {
        one["metadata"]["name"].lower(): one["download_info"]["archive_info"]["hashes"]["sha256"]
        for one in json.loads(report.read_text())["install"]
    }
    digest = files[VICTIM]
    changed = ("1" if digest[0] == "0" else "0") + digest[1:]
    text = LOCK.read_text()
    assert text.count(digest) == 1
    (tmp_path / "run.txt").write_text(text.replace(digest, changed))

    done = run_pip(environment, *LOCKED, str(tmp_path / "run.txt"))

    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert f"Expected sha256 {changed}" in done.stderr
    assert sorted(one.name for one in packages.iterdir()) == before, "not even the others"


@pytest.mark.package
def test_a_package_without_a_hash_ends_the_installation(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv", has_pip=False)
    text = LOCK.read_text()
    without, count = re.subn(
        rf"^({VICTIM}==\S+) \\\n(?:    --hash=.*\n)+", r"\1\n", text, flags=re.MULTILINE
    )
    assert count == 1
    (tmp_path / "run.txt").write_text(without)

    done = run_pip(environment, *LOCKED, str(tmp_path / "run.txt"))

    assert done.returncode != 0
    assert "Hashes are required" in done.stderr
