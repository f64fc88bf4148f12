"""Wheels, source distributions, and environments outside the checkout in which they are used."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

USE: Final = """
import sys
import zbk
from zbk.cluster.local import LocalCluster

assert zbk.__file__.startswith(sys.prefix), zbk.__file__
with LocalCluster(sys.argv[1], bookie_count=1) as cluster:
    with zbk.connect(cluster.metadata_uri) as client:
        one = dict(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
        with client.create_ledger(**one) as ledger:
            ledger.append_many([b"a", b"b"]).result(30)
            ledger_id = ledger.ledger_id
        with client.open_ledger(ledger_id) as reader:
            print([bytes(entry.payload) for entry in reader.read(0, 1)])
"""
"""A program that appends to a bookie and reads back; its argument is an empty folder."""


def build(source: Path, folder: Path, *, umask: int = 0o022) -> tuple[Path, Path]:
    """Build a source tree; return the wheel and the source distribution."""
    run_build(source, folder, umask=umask)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def run_build(source: Path, folder: Path, *arguments: str, umask: int = 0o022) -> None:
    """Build what the arguments say, or all."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *arguments]
    subprocess.run(command, cwd=source, check=True, capture_output=True, umask=umask)


def make_environment(folder: Path, python: str = sys.executable, *, has_pip: bool = True) -> Path:
    """Make a virtual environment; return its Python. One without pip is made in no time."""
    options = [] if has_pip or find_spec("pip") is None else ["--without-pip"]
    command = [python, "-m", "venv", *options, str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "bin" / "python"


def install(python: Path, *arguments: str, pip: Path | None = None) -> None:
    """Install into an environment; ``pip`` is the Python of one that has pip, if it has none."""
    done = run_pip(python, *arguments, pip=pip)
    assert done.returncode == 0, done.stderr


def run_pip(
    python: Path, *arguments: str, pip: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Install with the pip of an environment, or with another one if it has none."""
    command = [str(python), "-m", "pip"]
    if not (python.parent / "pip").exists():
        command = [str(pip or sys.executable), "-m", "pip", "--python", str(python)]
    options = ["install", "--quiet", "--disable-pip-version-check"]
    return subprocess.run(
        [*command, *options, *arguments],
        cwd=python.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def run_outside(python: Path, *arguments: str) -> str:
    """Run an installed Python outside the checkout; return what it prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ZBK_", "PYTHON"))}
    done = subprocess.run(
        [str(python), *arguments],
        cwd=python.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
