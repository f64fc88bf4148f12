"""The wheel and the source distribution: reproducible, and complete without the checkout."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import zbk
from tests.packaging.sbom import LOCKED
from tests.support.distributions import (
    ROOT,
    USE,
    build,
    install,
    make_environment,
    run_build,
    run_outside,
)

PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def test_two_builds_in_two_folders_at_two_times_have_the_same_bytes(
    built: tuple[Path, Path], unpacked: Path, tmp_path: Path
) -> None:
    second = tmp_path / "b" / "elsewhere"
    for folder, _, names in os.walk(unpacked, topdown=False):
        copy = second / Path(folder).relative_to(unpacked)
        copy.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(sorted(names, reverse=True)):  # another order in the folder
            shutil.copy(Path(folder, name), copy / name)
            (copy / name).chmod((copy / name).stat().st_mode & 0o700)  # as under a strict umask
            os.utime(copy / name, (10**9 + number, 10**9 + number))

    for source, umask in ((unpacked, 0o022), (second, 0o077)):
        again = build(source, tmp_path / f"dist{umask}", umask=umask)
        for one, other in zip(built, again, strict=True):
            assert one.name == other.name
            assert one.read_bytes() == other.read_bytes(), f"{one.name} from {source}"


def test_the_time_of_the_commit_is_the_time_of_the_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    run_build(ROOT, tmp_path, "-t", "sdist")

    (sdist,) = tmp_path.iterdir()
    with tarfile.open(sdist) as archive:
        assert {member.mtime for member in archive} == {1_700_000_000}


def test_the_wheel_works_outside_the_checkout(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Dependencies are those of this environment, so that nothing is downloaded."""
    python = make_environment(tmp_path / "venv", has_pip=False)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(here) + "\n")
    install(python, "--no-deps", "--no-index", str(built[0]))

    assert run_outside(python, "-m", "zbk", "version").split()[:2] == ["zbk", zbk.__version__]
    assert run_outside(python, "-c", USE, str(tmp_path / "data")) == "[b'a', b'b']\n"


@pytest.mark.package
@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_each_python_installs_it_with_hashed_dependencies(
    built: tuple[Path, Path], tmp_path: Path, version: str, kind: str
) -> None:
    python = make_environment(tmp_path / "venv", python_program(version))
    install(python, *LOCKED, str(ROOT / "requirements" / "run.txt"))
    if kind == "sdist":
        install(python, "--require-hashes", "-r", str(ROOT / "requirements" / "build.txt"))
    install(python, "--no-deps", "--no-build-isolation", str(built[kind == "sdist"]))

    assert run_outside(python, "-m", "zbk", "version").split()[:2] == ["zbk", zbk.__version__]
    assert run_outside(python, "-c", USE, str(tmp_path / "data")) == "[b'a', b'b']\n"


def test_the_classifiers_name_pythons_that_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [one.rpartition(" ")[2] for one in project["classifiers"] if ":: 3." in one]

    assert named == [version for version in PYTHONS if version in named]
    assert project["requires-python"] == f">={named[0]}"


def python_program(version: str) -> str:
    """Return a Python of this machine, on the path or of pyenv; skip if there is none."""
    names = [shutil.which(f"python{version}") or ""]
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    names += [str(one / "bin" / "python3") for one in pyenv.glob(f"{version}.*")]
    for name in filter(None, names):
        done = subprocess.run([name, "-c", "import ensurepip"], capture_output=True, check=False)
        if done.returncode == 0:
            return name
    pytest.skip(f"Python {version} with ensurepip is not installed")
