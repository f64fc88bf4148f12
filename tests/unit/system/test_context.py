"""The context file: written by `zbk up`, read by commands without flags."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zbk.errors import InvalidOptionError
from zbk.system.context import (
    clear_context,
    context_path,
    find_context,
    read_context,
    write_context,
)


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_no_context_is_none() -> None:
    assert read_context() is None


@pytest.mark.parametrize(
    "uri", ["zk://127.0.0.1:2181/zbk", 'sqlite:////data/a "quoted" é\\folder/metadata.db']
)
def test_what_was_written_is_read(uri: str, config_home: Path) -> None:
    write_context(uri, "/data", os.getpid())

    assert read_context() == uri
    context = find_context()
    assert context is not None
    assert (context.data_dir, context.pid) == ("/data", os.getpid())
    assert [path.name for path in (config_home / "zbk").iterdir()] == ["context.toml"]


def test_a_cleared_context_is_none_and_clearing_twice_is_fine() -> None:
    write_context("zk://h", "/data", os.getpid())
    clear_context()
    clear_context()

    assert read_context() is None


def test_a_context_whose_process_is_gone_names_the_cures() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    write_context("zk://h", "/data/cluster", process.pid)
    assert read_context() == "zk://h"
    process.communicate()

    with pytest.raises(InvalidOptionError) as caught:
        read_context()

    text = str(caught.value)
    assert "zbk up --data /data/cluster" in text
    assert f"rm {context_path()}" in text


def test_a_reused_process_id_does_not_revive_a_context() -> None:
    write_context("zk://h", "/data", os.getpid())
    path = Path(context_path())
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines[:-1], "started_ticks = 1"]), "utf-8")

    with pytest.raises(InvalidOptionError, match="is gone"):
        read_context()


@pytest.mark.parametrize("text", [b"not toml", b"metadata = 1", b"pid = 'x'", b"\xff"])
def test_a_broken_context_names_the_cure(text: bytes) -> None:
    path = Path(context_path())
    path.parent.mkdir()
    path.write_bytes(text)

    with pytest.raises(InvalidOptionError, match="rm "):
        read_context()


def test_without_xdg_the_context_is_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/somewhere")

    assert context_path() == "/somewhere/.config/zbk/context.toml"
