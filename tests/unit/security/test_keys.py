"""Keys and their files."""

import errno
import os
from pathlib import Path

import pytest

from zbk.errors import InvalidOptionError, KeyFileError
from zbk.security.keys import KeyPair, is_key, list_public, read_pair, read_public, write_pair
from zbk.transport.curve import new_pair

SECRET = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
PAIR = KeyPair("alice", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", SECRET)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_pair_is_read_as_it_was_written(tmp_path: Path) -> None:
    private, public = write_pair(tmp_path, PAIR)

    assert read_pair(private) == PAIR
    assert read_public(private) == read_public(public)
    assert read_public(public).public_key == PAIR.public_key


@pytest.mark.parametrize("mask", [0, 0o022, 0o777])
def test_the_modes_do_not_depend_on_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        private, public = write_pair(tmp_path, PAIR)
    finally:
        os.umask(before)

    assert (mode_of(private), mode_of(public)) == (0o600, 0o644)


def test_a_file_that_exists_is_not_replaced(tmp_path: Path) -> None:
    private, public = write_pair(tmp_path, PAIR)
    content = private.read_bytes()

    with pytest.raises(KeyFileError, match="exists already"):
        write_pair(tmp_path, new_pair("alice"))
    public.unlink()
    with pytest.raises(KeyFileError, match="exists already"):
        write_pair(tmp_path, new_pair("alice"))

    assert private.read_bytes() == content
    assert not public.exists()


def test_a_link_in_the_place_of_a_new_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (tmp_path / "alice.key").symlink_to(target)

    with pytest.raises(KeyFileError):
        write_pair(tmp_path, PAIR)

    assert not target.exists()


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o666, 0o601])
def test_a_private_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    private, _public = write_pair(tmp_path, PAIR)
    private.chmod(mode)

    with pytest.raises(KeyFileError, match="chmod 600"):
        read_pair(private)


def test_a_group_may_read_a_private_file(tmp_path: Path) -> None:
    private, _public = write_pair(tmp_path, PAIR)
    private.chmod(0o440)

    assert read_pair(private) == PAIR


@pytest.mark.parametrize(
    "content",
    [b"", b"no toml", b'name = "alice"', b"\xff\xfe", b'name = "a"\npublic_key = "short"'],
)
def test_other_content_is_no_key_and_is_not_repeated(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "alice.key"
    path.touch(mode=0o600)
    path.write_bytes(content + f'\nsecret_key = "{SECRET[:-1]}"'.encode() if content else content)

    for read in (read_pair, read_public):
        with pytest.raises(KeyFileError) as found:
            read(path)
        assert SECRET[:8] not in str(found.value)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"gone\.key: No such file"):
        read_pair(tmp_path / "gone.key")


def test_a_public_file_is_no_private_one(tmp_path: Path) -> None:
    _private, public = write_pair(tmp_path, PAIR)
    public.chmod(0o600)

    with pytest.raises(KeyFileError, match=r"give the file NAME\.key"):
        read_pair(public)


def test_a_pair_does_not_show_its_secret() -> None:
    assert SECRET not in repr(PAIR)
    assert SECRET not in str(PAIR)
    assert SECRET not in f"{[PAIR]}"


def test_the_keys_of_a_folder_are_listed_by_name(tmp_path: Path) -> None:
    for name in ("zoe", "alice"):
        write_pair(tmp_path, new_pair(name))
    (tmp_path / "notes.txt").touch()

    assert [found.name for _path, found in list_public(tmp_path)] == ["alice", "zoe"]


@pytest.mark.parametrize("name", ["", "../alice", "a/b", "a b", "-a", "a" * 65, "ä", "a\n"])
def test_no_key_has_such_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOptionError):
        write_pair(tmp_path, KeyPair(name, PAIR.public_key, SECRET))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "a" * 39, "a" * 41, "a" * 39 + "~", "a" * 39 + "\n"])
def test_other_texts_are_no_keys(text: str) -> None:
    assert not is_key(text)


@pytest.mark.parametrize("failing_count", [1, 2])  # the private file, the public one
def test_a_pair_that_a_full_disk_cuts_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_count: int
) -> None:
    fsync_count = 0

    def full(fd: int) -> None:
        nonlocal fsync_count
        del fd
        fsync_count += 1
        if fsync_count == failing_count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyFileError, match="No space left"):
        write_pair(tmp_path, PAIR)

    assert list(tmp_path.iterdir()) == []
    private, _public = write_pair(tmp_path, PAIR)
    assert read_pair(private) == PAIR
