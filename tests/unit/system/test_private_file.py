"""Files that only their owner reads, complete or not there."""

import subprocess
import sys
from pathlib import Path

import pytest

from zbk.system.private_file import private_file


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with private_file(path) as file:
        file.write(b"kept")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"kept", 0o600)
    with pytest.raises(FileExistsError), private_file(path):
        raise AssertionError("it is there")
    assert path.read_bytes() == b"kept"


def test_a_file_that_fails_is_removed_and_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"full.*file'"), private_file(tmp_path / "file"):
        raise OSError(28, "full")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments", [["debug", "bundle", "FILE"], ["generate", "token", "--file", "FILE"]]
)
def test_a_command_without_space_leaves_nothing_and_names_the_file(
    tmp_path: Path, arguments: list[str]
) -> None:
    """A limit on the size of files, in place of a full disk."""
    words = [str(tmp_path / "out") if word == "FILE" else word for word in arguments]
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (4, 4)); "
    program = (
        f"{limit}import sys; sys.argv = ['zbk', *{words}]; from zbk.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "File too large" in done.stderr
    assert str(tmp_path / "out") in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
