"""What other users may do with files and directories."""

import os
from pathlib import Path

import pytest

from zbk.system.exposure import exposures_of, is_foreign, link_in

USER, OTHER = 1_000, 1_001


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    (made / "log").touch(0o600)
    return made


def whys(path: Path) -> list[str]:
    return [one.why for one in exposures_of(str(path), os.geteuid())]


def test_what_zbk_creates_is_not_exposed(folder: Path) -> None:
    assert whys(folder) == whys(folder / "log") == []


def test_a_path_that_is_not_there_is_not_exposed(tmp_path: Path) -> None:
    assert whys(tmp_path / "none") == []


def test_names_may_be_listed_and_contents_may_not(folder: Path) -> None:
    folder.chmod(0o755)
    assert whys(folder) == []

    (folder / "log").chmod(0o644)
    assert whys(folder) == ["has files that every user may read, log for one"]
    assert whys(folder / "log") == ["may be read or changed by every user"]

    folder.chmod(0o700)
    assert whys(folder) == []


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_directory_that_everyone_may_fill_is(folder: Path, mode: int) -> None:
    folder.chmod(mode)

    assert whys(folder) == ["lets everyone create files"]


def test_a_parent_in_which_everyone_may_replace_it_is(folder: Path) -> None:
    folder.parent.chmod(0o777)
    (found,) = exposures_of(str(folder), os.geteuid())
    assert str(found) == f"{folder.parent} lets everyone replace files: chmod o-w {folder.parent}"

    folder.parent.chmod(0o1777)
    assert whys(folder) == []


def test_the_owner_is_the_user_or_root(folder: Path) -> None:
    assert is_foreign(OTHER, USER)
    assert not is_foreign(0, USER)
    assert not is_foreign(OTHER, 0)
    if os.geteuid() == 0:
        os.chown(folder, OTHER, OTHER)
        (found,) = exposures_of(str(folder), USER)
        assert found.why == "belongs to another user, with id 1001"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_link_of_another_user_is(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    os.chown(folder, USER, USER)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)

    (found,) = exposures_of(str(link), USER)
    assert found.why == "is a symbolic link of another user, with id 1001"
    assert exposures_of(str(link), 0) == []


def test_a_link_is_found_at_any_depth(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "logs" / "1").mkdir(parents=True)
    (folder / "logs" / "file").write_text("x")
    itself = tmp_path / "itself"
    itself.symlink_to(folder)
    assert link_in(str(folder)) is None
    assert link_in(str(itself)) is None
    assert link_in(str(tmp_path / "none")) is None

    link = folder / "logs" / "1" / "link"
    link.symlink_to(tmp_path / "nowhere")
    assert link_in(str(folder)) == str(link)
