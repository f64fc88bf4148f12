"""The user of a process at its metadata store."""

from pathlib import Path

import pytest

from tests.support.zookeeper_users import make_access
from zbk.config import ClientConfig, MetadataAccess, own_access_of
from zbk.errors import InvalidOptionError, KeyFileError
from zbk.metadata.stores.access import own_access, read_user, use_config_file


def test_a_user_has_a_name_and_a_password_that_is_not_shown(tmp_path: Path) -> None:
    user = read_user(make_access(tmp_path, "ann"))

    assert user is not None
    assert (user.name, user.password) == ("ann", "secret of ann")
    assert "secret" not in repr(user)
    assert read_user(MetadataAccess()) is None


@pytest.mark.parametrize("name", ["", "a:b", "a\nb"])
def test_a_name_without_form_is_refused(tmp_path: Path, name: str) -> None:
    path = make_access(tmp_path, "ann").password_file

    with pytest.raises(InvalidOptionError, match="metadata_user"):
        read_user(MetadataAccess(user=name, password_file=path))


def test_a_user_needs_a_password(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="metadata_password_file"):
        read_user(MetadataAccess(user="ann"))
    path = tmp_path / "empty"
    path.touch(0o600)
    for content in (b"", b"\n", b"x" * 1_025, b"\xff"):
        path.write_bytes(content)
        with pytest.raises(KeyFileError, match="it holds no password"):
            read_user(MetadataAccess(user="ann", password_file=str(path)))


def test_a_password_that_others_may_read_is_refused(tmp_path: Path) -> None:
    access = make_access(tmp_path, "ann")
    Path(access.password_file).chmod(0o644)

    with pytest.raises(KeyFileError, match="other users of this machine"):
        read_user(access)


def test_the_environment_comes_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "zbk.toml"
    file.write_text('[security]\nmetadata_user = "ann"\nmetadata_password_file = "/a"\n')
    monkeypatch.setenv("ZBK_METADATA_USER", "bob")

    assert own_access() == MetadataAccess(user="bob")
    monkeypatch.setenv("ZBK_CONFIG", str(file))
    assert own_access() == MetadataAccess(user="bob", password_file="/a")
    monkeypatch.delenv("ZBK_METADATA_USER")
    monkeypatch.delenv("ZBK_CONFIG")
    use_config_file(str(file))
    try:
        assert own_access() == MetadataAccess(user="ann", password_file="/a")
    finally:
        use_config_file("")


def test_a_client_may_have_a_user_of_its_own() -> None:
    assert own_access_of(ClientConfig()) is None
    assert own_access_of(ClientConfig(metadata_user="ann")) == MetadataAccess(user="ann")
