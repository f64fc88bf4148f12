"""The bill of materials of a wheel: what is installed with it, as CycloneDX JSON.

    python -m tests.packaging.sbom dist     # writes dist/zbk-VERSION.cdx.json

An environment gets what ``requirements/run.txt`` names, and nothing else. ``cyclonedx-py`` lists it
from another environment, with versions, licenses, and which package needs which. The hashes of all
files that may be installed are in ``requirements/run.txt``. Two runs on one machine give the same
bytes, and none of them names the machine.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.support.distributions import ROOT, install, make_environment
from zbk.version import __version__

LOCKED: Final = ("--require-hashes", "--only-binary", ":all:", "-r")
"""Wheels only: the installation runs no code of a package."""


def make_tool(folder: Path) -> Path:
    """Make an environment with ``cyclonedx-py``; return its Python."""
    tool = make_environment(folder)
    install(tool, *LOCKED, str(ROOT / "requirements" / "sbom.txt"))
    return tool


def write_bill(folder: Path, tool: Path) -> Path:
    """Write the bill of materials into a folder; return its path."""
    with TemporaryDirectory() as work:
        listed = _empty_environment(Path(work, "listed"))
        install(listed, *LOCKED, str(ROOT / "requirements" / "run.txt"), pip=tool)
        bill = _bill_of(tool, listed)
    bill["metadata"]["component"] |= {"version": __version__, "purl": f"pkg:pypi/zbk@{__version__}"}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"zbk-{__version__}.cdx.json"
    path.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
    return path


def _empty_environment(folder: Path) -> Path:
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "bin" / "python"


def _bill_of(tool: Path, listed: Path) -> dict[str, Any]:
    command = [
        str(tool.parent / "cyclonedx-py"), "environment", str(listed),
        "--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application",
        "--output-reproducible", "--output-format", "JSON", "--validate",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"cyclonedx-py failed: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Write the bill, and print its path."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.packaging.sbom", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path, help="where the bill is written")
    folder = parser.parse_args().folder
    with TemporaryDirectory() as work:
        sys.stdout.write(f"{write_bill(folder, make_tool(Path(work, 'tool')))}\n")


if __name__ == "__main__":
    main()
