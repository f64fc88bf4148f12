"""Access to the admin API: actions, tokens, addresses, and passwords in no query and no log."""

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.fake_client import BOOKIES
from tests.support.http import ask
from tests.support.served_api import Api, serving
from tests.support.waiting import wait_until
from zbk.admin.access import Access, read_token
from zbk.admin.openapi import PATH
from zbk.admin.operation import SECRET_HEADER
from zbk.admin.operations import OPERATIONS
from zbk.cli.main import cli
from zbk.errors import InvalidOptionError

TOKEN = "0123456789abcdef"


def test_actions_need_to_be_allowed(reading: Api) -> None:
    reading.client.add_ledger([b"one"])
    for one in OPERATIONS:
        if one.is_action:
            refused = reading.ask(one.method, one.path, ledger_id=0)
            assert refused.status == 403
            assert "--allow-actions" in refused.body
    assert list(reading.client.list_ledgers()) == [0]
    assert reading.get("/api/v1/ledger/list") == {"0": None}


def test_a_token_is_required_where_there_is_one() -> None:
    for api in serving(Access(is_loopback=False, token=TOKEN, has_actions=True)):
        for path in ("/api/v1/ledger/list", PATH):
            for wrong in ("", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"):
                assert ask(api.url + path, headers={"Authorization": wrong}).status == 401
            assert ask(api.url + path, headers={"Authorization": f"Bearer {TOKEN}"}).status == 200
        assert ask(f"{api.url}/heartbeat").body == "OK\n"


def test_beyond_loopback_nothing_is_served_without_a_token() -> None:
    for api in serving(Access(is_loopback=False, has_actions=True)):
        answer = ask(f"{api.url}/api/v1/ledger/list", headers={"Authorization": "Bearer "})
        assert answer.status == 403
        assert "--http-token-file" in answer.body


def test_a_token_file_has_one_long_word(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    assert TOKEN not in repr(Access(is_loopback=True, token=TOKEN))
    for text in ("", "short", "two words of a token", "ä" * 20, "a" * 2_000):
        file.write_text(text)
        with pytest.raises(InvalidOptionError, match="token file"):
            read_token(file)
    with pytest.raises(InvalidOptionError, match="cannot be read"):
        read_token(tmp_path)


@pytest.mark.usefixtures("own_logging")
def test_actions_without_an_address_are_refused(tmp_path: Path) -> None:
    arguments = ["--journal-dir", "j", "--ledger-dir", "l", "--metadata", f"sqlite://{tmp_path}/m"]
    command = ["bookie", "run", *arguments, "--http", "off", "--allow-actions"]
    failed = CliRunner().invoke(cli, command)
    assert failed.exit_code != 0
    assert "needs an address" in str(failed.exception) + failed.output


def test_a_password_is_never_in_a_query_nor_in_a_log(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = "/api/v1/autorecovery/bookie"
    refused = api.ask("PUT", path, bookie_src=BOOKIES[0], password="hush-hush")
    assert refused.status == 400
    assert "hush" not in refused.body
    assert SECRET_HEADER in refused.body
    url = f"{api.url}{path}?bookie_src={BOOKIES[0]}"
    taken = ask(url, "PUT", {SECRET_HEADER: "hush-hush"})
    assert taken.status == 200, taken.body
    assert json.loads(taken.body)["jobs"][0]["options"]["has_password"] is True
    body = b'{"password": "hush-hush"}'
    assert ask(url, "PUT", {SECRET_HEADER: "hush-hush"}, body).status == 400, "given twice"
    assert ask(url, "PUT", {SECRET_HEADER: "hush" * 100}).status == 400
    wait_until(lambda: api.get("/api/v1/zbk/job/list")[0]["state"] == "done")
    assert "hush" not in caplog.text + repr([one.__dict__ for one in caplog.records])
    assert "hush" not in json.dumps(api.get("/api/v1/zbk/job/list"))
