"""The wheel and the source distribution of this checkout, built once."""

import tarfile
from pathlib import Path

import pytest

import zbk
from tests.support.distributions import ROOT, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the wheel and the source distribution."""
    return build(ROOT, tmp_path_factory.mktemp("session-dist"))


@pytest.fixture(scope="session")
def unpacked(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the unpacked source distribution. Tests change nothing there."""
    folder = tmp_path_factory.mktemp("session-source")
    with tarfile.open(built[1]) as archive:
        if hasattr(tarfile, "data_filter"):  # not before 3.11.4; Debian 12 has 3.11.2
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)  # noqa: S202 - it is ours
    return folder / f"zbk-{zbk.__version__}"
