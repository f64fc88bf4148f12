"""Files that hold secrets: which are refused."""

import os
import stat
from pathlib import Path

import pytest

from zbk.errors import KeyFileError
from zbk.security.secret_file import read_private, why_unsafe

USER, OTHER = 1_000, 1_001


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"secret\n")
    path.chmod(0o600)
    return path


def status(mode: int = 0o600, owner: int = USER) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, 0, 7, 0, 0, 0))


def test_a_private_file_is_read_up_to_a_size(file: Path) -> None:
    assert read_private(file, 100) == b"secret\n"
    assert read_private(file, 3) == b"sec"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_its_owner_and_its_group_may_read_it(tmp_path: Path, mode: int) -> None:
    assert why_unsafe(tmp_path / "k", status(mode), USER) == ""


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o666])
def test_others_may_do_nothing(tmp_path: Path, mode: int) -> None:
    assert "chmod 600" in why_unsafe(tmp_path / "k", status(mode), USER)


def test_it_belongs_to_the_user_or_to_root(tmp_path: Path) -> None:
    path = tmp_path / "k"

    assert why_unsafe(path, status(owner=0), USER) == ""
    assert why_unsafe(path, status(owner=OTHER), 0) == ""  # root reads everything
    assert "another user, with id 1001" in why_unsafe(path, status(owner=OTHER), USER)


def test_nobody_else_may_replace_it(file: Path) -> None:
    file.parent.chmod(0o777)
    with pytest.raises(KeyFileError, match=f"everyone may replace it.*{file.parent}"):
        read_private(file, 100)

    file.parent.chmod(0o1777)  # as /tmp
    assert read_private(file, 100)


def test_a_directory_further_up_counts_too(tmp_path: Path) -> None:
    path = tmp_path / "open" / "closed" / "secret"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(b"secret")
    path.chmod(0o600)
    (tmp_path / "open").chmod(0o777)

    with pytest.raises(KeyFileError, match=f"everyone may replace it.*{tmp_path}/open"):
        read_private(path, 100)


def test_a_link_counts_with_its_folder_and_its_owner(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "link"
    link.symlink_to(file)
    assert read_private(link, 100)

    folder.chmod(0o777)
    with pytest.raises(KeyFileError, match=f"{folder}`"):
        read_private(link, 100)

    folder.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(link, OTHER, OTHER, follow_symlinks=False)
        assert f"the symbolic link {link}" in why_unsafe(link, status(), USER)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="No such file"):
        read_private(tmp_path / "none", 100)
