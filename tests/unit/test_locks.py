"""The locked versions: complete, consistent, hashed, and bound to no package index."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKS = ("build", "run", "zookeeper", "peers", "docs", "sbom", "ci", "dev")
CURE = "run `make lock`"


def lock_text(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")


def locked(name: str) -> dict[str, str]:
    """Return the versions that one lock file names, by normalised package name."""
    pins = re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", lock_text(name), re.MULTILINE)
    return dict(pins)


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def wanted(name: str) -> list[Requirement]:
    """Return what pyproject.toml asks for, of which the lock file must be a choice."""
    tables = project()
    texts: list[str] = []
    if name == "build":
        texts += tables["build-system"]["requires"]
    elif name in ("sbom", "ci"):
        texts += tables["dependency-groups"][name]
    else:
        texts += tables["project"]["dependencies"]
    if name in ("zookeeper", "dev"):
        texts += tables["project"]["optional-dependencies"]["zookeeper"]
    if name in ("peers", "docs"):
        texts += tables["dependency-groups"][name]
    if name == "dev":
        groups = tables["dependency-groups"]
        texts += groups["test"] + groups["check"]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_has_a_version_that_fits(name: str) -> None:
    versions = locked(name)
    for requirement in wanted(name):
        version = versions.get(requirement.name.lower())
        assert version is not None, f"{requirement.name} is not in {name}.txt: {CURE}"
        assert requirement.specifier.contains(version), f"{requirement} is not {version}: {CURE}"


@pytest.mark.parametrize("name", LOCKS)
def test_every_version_has_hashes_and_no_line_names_an_index(name: str) -> None:
    text = lock_text(name)

    assert "://" not in text
    assert "index-url" not in text
    for block in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE):
        if "==" in block:
            assert "--hash=sha256:" in block, block.splitlines()[0]


def test_all_files_choose_the_same_versions() -> None:
    chosen: dict[str, str] = {}
    for name in LOCKS:
        for package, version in locked(name).items():
            assert chosen.setdefault(package, version) == version, f"{package}: {CURE}"


@pytest.mark.parametrize("name", LOCKS)
def test_a_compiled_package_can_be_installed_on_every_python(name: str) -> None:
    """A lock made from a folder of wheels knows the wheels of one Python only."""
    blocks = re.split(r"^(?=[a-z])", lock_text(name), flags=re.MULTILINE)
    hash_counts = {block.partition("==")[0]: block.count("--hash=sha256:") for block in blocks}

    for package in ("numpy", "kiwisolver", "matplotlib", "msgspec", "cffi", "pyzmq", "lxml"):
        assert hash_counts.get(package, 20) >= 20, f"{package}: delete {name}.txt and {CURE}"
