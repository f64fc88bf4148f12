"""`zbk ledger create`, `sync`, `recover`, `close` and `delete` against a client in memory."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from click.testing import CliRunner

from tests.support.cli import Run
from tests.support.fake_client import FakeClient
from tests.support.waiting import wait_until
from zbk.cli.main import cli
from zbk.cli.session import Session
from zbk.client.operations.ledger_copies import LedgerCopy
from zbk.protocol.entry.words import ENTRY_ID_MAX, LEDGER_ID_MAX
from zbk.system.clock import monotonic_s

if TYPE_CHECKING:
    from zbk.client.api import Client


def test_create_reserves_a_ledger_and_prints_its_id(run: Run, client: FakeClient) -> None:
    result = run(
        "ledger", "create", "-E", "2", "-w", "2", "-a", "1", "--type", "vd", "--digest", "none",
        "--meta", "job=nightly", "--meta", "empty=",
    )  # fmt: skip

    assert (result.exit_code, result.stdout) == (0, "0\n")
    made = client.metadata[0]
    assert (made.ensemble_size, made.write_quorum_size, made.ack_quorum_size) == (2, 2, 1)
    assert (made.ledger_type, made.digest_type) == ("VD_JOURNAL", "NONE")
    assert made.custom_metadata == {"job": b"nightly", "empty": b""}
    assert not made.has_writer
    assert client.is_closed


def test_create_prints_json(run: Run) -> None:
    assert json.loads(run("ledger", "create", "-o", "json").stdout) == {"ledger_id": 0}


def test_meta_without_a_value_is_a_mistake_of_use(run: Run) -> None:
    result = run("ledger", "create", "--meta", "job")

    assert result.exit_code == 2
    assert "'job' is not KEY=VALUE" in result.stderr


def test_an_id_beyond_all_ids_is_a_mistake_of_use(run: Run) -> None:
    too_large = str(LEDGER_ID_MAX + 1)

    assert LEDGER_ID_MAX == ENTRY_ID_MAX
    assert run("ledger", "append", too_large).exit_code == 2
    assert run("ledger", "show", too_large).exit_code == 2
    assert run("ledger", "cat", "0", "--last", too_large).exit_code == 2


def test_sync_prints_the_last_durable_entry(run: Run) -> None:
    run("ledger", "append", "--type", "vd", "--keep-open", stdin=b"a\nb\n")

    assert run("ledger", "sync", "0").stdout == "ledger id        0\nlast durable id  1\n"


def test_recover_closes_a_ledger_and_shows_its_end(run: Run, client: FakeClient) -> None:
    client.reserve_ledger()
    client.entries[0] = [b"one", b"two"]

    result = run("ledger", "recover", "0", "-o", "json")

    shown = json.loads(result.stdout)
    del shown["seconds"]
    assert shown == {
        "ledger_id": 0, "state": "CLOSED", "last_entry_id": 1, "payload_size": 6,
        "fragment_count": 1, "repair": None, "missing": {},
    }  # fmt: skip
    assert client.recover_timeout_s == 60


def test_the_recovery_of_a_vd_ledger_shows_what_it_left_out(run: Run, client: FakeClient) -> None:
    run("ledger", "append", "--type", "vd", "--keep-open", stdin=b"a\nb\n")
    client.copies[0] = [LedgerCopy(bookie_id="a", last_entry_id=4, last_add_synced=1)]

    shown = json.loads(run("ledger", "recover", "0", "-o", "json").stdout)

    assert (shown["last_entry_id"], shown["left_out_count"]) == (1, 3)
    client.copies[0] = [LedgerCopy(bookie_id="a", why="no answer in time")]
    assert json.loads(run("ledger", "recover", "0", "-o", "json").stdout)["left_out_count"] is None


def test_the_seconds_of_a_recovery_are_its_own(client: FakeClient) -> None:
    client.reserve_ledger()
    connect_s = 0.5

    def connect_slowly(_metadata: str | None) -> "Client":
        end_s = monotonic_s() + connect_s
        wait_until(lambda: monotonic_s() >= end_s)
        return cast("Client", client)

    result = CliRunner().invoke(
        cli, ["ledger", "recover", "0", "-o", "json"], obj=Session(connect_slowly)
    )

    assert json.loads(result.stdout)["seconds"] < connect_s


def test_recover_takes_a_time_and_a_password(run: Run, client: FakeClient, tmp_path: Path) -> None:
    client.reserve_ledger(password=b"secret")
    file = tmp_path / "password"
    file.write_bytes(b"secret\n")

    wrong = run("ledger", "recover", "0")
    right = run("ledger", "recover", "0", "--timeout", "5min", "--password-file", str(file))

    assert wrong.exit_code != 0
    assert "wrong password" in wrong.stderr
    assert right.exit_code == 0
    assert client.recover_timeout_s == 300


@pytest.mark.parametrize("timeout", ["soon", "0"])
def test_recover_refuses_a_time_that_is_none(run: Run, timeout: str) -> None:
    assert run("ledger", "recover", "0", "--timeout", timeout).exit_code == 2


def test_close_closes_a_reserved_ledger(run: Run, client: FakeClient) -> None:
    run("ledger", "create")

    assert run("ledger", "close", "0").exit_code == 0
    assert client.metadata[0].last_entry_id == -1


def test_delete_without_a_terminal_needs_yes(run: Run, client: FakeClient) -> None:
    client.add_ledger([b"a"])

    refused = run("ledger", "delete", "0")
    assert refused.exit_code == 2
    assert "give --yes" in refused.stderr
    assert client.metadata

    assert run("ledger", "delete", "0", "--yes").exit_code == 0
    assert client.metadata == {}


@pytest.mark.parametrize(
    ("tags", "warning"),
    [
        ({"zbk.log": b"orders"}, "ledger 0 was written for log orders"),
        ({"zbk.dataset.name": b"events"}, "ledger 0 was written for data set events"),
        ({"job": b"nightly"}, ""),
    ],
    ids=["log", "data set", "neither"],
)
def test_delete_warns_of_a_ledger_that_others_need_before_it_asks(
    run: Run,
    client: FakeClient,
    monkeypatch: pytest.MonkeyPatch,
    tags: dict[str, bytes],
    warning: str,
) -> None:
    client.add_ledger([b"a"], custom_metadata=tags)
    monkeypatch.setattr("zbk.cli.confirmation.is_terminal", lambda _stream: True)
    monkeypatch.setattr("zbk.cli.ledger.write.check_can_ask", lambda **_options: None)

    declined = run("ledger", "delete", "0", stdin=b"n\n")

    assert declined.exit_code == 0
    assert declined.stderr.partition("Delete ledger 0 (1 entries)?")[0].startswith(
        f"zbk: {warning}" if warning else ""
    )
    assert ("was written for" in declined.stderr) == bool(warning)
    assert client.metadata
