"""The password of a ledger, and the MAC that needs one, on the command line."""

from pathlib import Path

import pytest

from tests.support.cli import Run
from tests.support.fake_client import FakeClient


def test_the_password_comes_from_a_file_or_the_environment(
    run: Run, client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"s3cret \n")
    run("ledger", "append", "--password-file", str(secret), stdin=b"a\n")
    assert client.passwords[0] == b"s3cret "

    assert run("ledger", "cat", "0").exit_code == 1
    assert run("ledger", "cat", "0", "--password-file", str(secret)).stdout_bytes == b"a"
    monkeypatch.setenv("ZBK_PASSWORD", "s3cret ")
    assert run("ledger", "cat", "0").stdout_bytes == b"a"


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n"])
def test_a_password_file_without_a_password_is_refused(
    run: Run, client: FakeClient, tmp_path: Path, content: bytes
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(content)

    result = run("ledger", "create", "--password-file", str(secret))

    assert result.exit_code == 2
    assert f"{secret} holds no password" in " ".join(result.stderr.split())
    assert client.metadata == {}


@pytest.mark.parametrize(
    "command", [["ledger", "create"], ["ledger", "append"], ["log", "append", "orders"]]
)
def test_a_mac_without_a_password_is_a_mistake_of_use(
    run: Run, client: FakeClient, command: list[str]
) -> None:
    result = run(*command, "--digest", "mac", stdin=b"a\n")

    assert result.exit_code == 2
    assert "--digest mac needs a password" in " ".join(result.stderr.split())
    assert client.metadata == {}


def test_a_mac_with_a_password_is_made(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZBK_PASSWORD", "secret")

    assert run("ledger", "create", "--digest", "mac").exit_code == 0
    assert client.metadata[0].digest_type == "MAC"


def test_a_password_on_the_command_line_is_no_option(run: Run) -> None:
    assert run("ledger", "cat", "0", "--password", "x").exit_code == 2


def test_a_missing_password_file_is_a_mistake_of_use(run: Run) -> None:
    result = run("ledger", "cat", "0", "--password-file", "no-such-file")

    assert result.exit_code == 2
    assert "no-such-file" in result.stderr
