"""How the tests here run a command: in this process, against a client in memory."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from click.testing import CliRunner, Result

from tests.support.cli import Run
from tests.support.fake_client import FakeClient
from zbk.cli.main import cli
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.client.api import Client


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def run(client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("ZBK_METADATA", "ZBK_PASSWORD", "ZBK_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
        session = Session(lambda _metadata: cast("Client", client))
        return CliRunner().invoke(cli, list(arguments), input=stdin, obj=session)

    return invoke
