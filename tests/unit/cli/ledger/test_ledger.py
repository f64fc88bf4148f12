"""`zbk ledger ...` against a client in memory."""

import base64
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
from zbk.errors import (
    EXIT_DAMAGE,
    CorruptRecordError,
    LedgerFencedError,
    UnsupportedVersionError,
)
from zbk.protocol.entry.words import ENTRY_ID_MAX, LEDGER_ID_MAX
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.underreplicated import MissingReason, UnderreplicatedLedger
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


def test_append_makes_a_ledger_of_lines_and_closes_it(
    run: Run, client: FakeClient, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\n\ntwo\r\nthree")

    result = run("ledger", "append", str(file), "-o", "json")

    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    del shown["seconds"]
    assert shown == {
        "ledger_id": 0, "entry_count": 4, "payload_size": 12, "last_entry_id": 3, "state": "CLOSED",
    }  # fmt: skip
    assert client.entries[0] == [b"one", b"", b"two\r", b"three"]
    assert client.metadata[0].is_closed


def test_append_reads_standard_input_where_no_file_is_given(run: Run, client: FakeClient) -> None:
    result = run("ledger", "append", stdin=b"a\nb\n")

    assert result.exit_code == 0
    assert client.entries[0] == [b"a", b"b"]
    assert "entry count    2\n" in result.stdout


def test_append_nothing_makes_an_empty_ledger(run: Run, client: FakeClient) -> None:
    result = run("ledger", "append", "-", "-o", "json", stdin=b"")

    assert json.loads(result.stdout)["last_entry_id"] == -1
    assert client.metadata[0].last_entry_id == -1


@pytest.mark.parametrize(
    ("options", "entries"),
    [
        (["--chunk", "4"], [b"0123", b"45\n6", b"7"]),
        (["--chunk", "1KiB"], [b"012345\n67"]),
        (["--whole"], [b"012345\n67"]),
        (["--lines"], [b"012345", b"67"]),
    ],
)
def test_append_cuts_its_input(
    run: Run, client: FakeClient, options: list[str], entries: list[bytes]
) -> None:
    assert run("ledger", "append", *options, stdin=b"012345\n67").exit_code == 0

    assert client.entries[0] == entries


def test_append_fills_a_reserved_ledger(run: Run, client: FakeClient) -> None:
    run("ledger", "create", "--type", "vd")

    assert run("ledger", "append", "0", stdin=b"a\n").exit_code == 0

    assert client.entries == {0: [b"a"]}
    assert client.metadata[0].has_writer


def test_append_twice_to_one_ledger_is_refused(run: Run, client: FakeClient) -> None:
    run("ledger", "create")
    run("ledger", "append", "0", stdin=b"a\n")

    result = run("ledger", "append", "0", stdin=b"b\n")

    assert result.exit_code == 5
    assert client.entries[0] == [b"a"]


def test_append_refuses_options_of_a_new_ledger_for_one_that_exists(
    run: Run, client: FakeClient
) -> None:
    run("ledger", "create")

    result = run("ledger", "append", "0", "--type", "vd", stdin=b"a\n")

    assert result.exit_code == 2
    assert "--type is for a new ledger" in result.stderr
    assert client.entries[0] == []


def test_append_keeps_a_ledger_open_on_demand(run: Run, client: FakeClient) -> None:
    result = run("ledger", "append", "--keep-open", "-o", "json", stdin=b"a\n")

    assert json.loads(result.stdout)["state"] == "OPEN"
    assert not client.metadata[0].is_closed


def test_a_file_whose_name_is_a_number_is_given_with_its_folder(
    run: Run, client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("42").write_bytes(b"x\n")

    assert run("ledger", "append", "./42").exit_code == 0
    assert run("ledger", "append", "42").exit_code == 1  # there is no ledger 42
    assert client.entries == {0: [b"x"]}


def test_an_id_beyond_all_ids_is_a_mistake_of_use(run: Run) -> None:
    too_large = str(LEDGER_ID_MAX + 1)

    assert LEDGER_ID_MAX == ENTRY_ID_MAX
    assert run("ledger", "append", too_large).exit_code == 2
    assert run("ledger", "show", too_large).exit_code == 2
    assert run("ledger", "cat", "0", "--last", too_large).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--chunk", "4", "--whole"], ["--lines", "--whole"], ["a", "b"], ["1", "2", "3"]),
        ["--keep-open", "--accept-loss"],
    ],
)
def test_append_with_contradicting_arguments_is_a_mistake_of_use(
    run: Run, client: FakeClient, arguments: list[str]
) -> None:
    assert run("ledger", "append", *arguments, stdin=b"").exit_code == 2
    assert client.metadata == {}


@pytest.mark.parametrize("size", ["0", "x", "-1", "4 parsec"])
def test_a_bad_chunk_size_is_a_mistake_of_use(run: Run, size: str) -> None:
    assert run("ledger", "append", "--chunk", size, stdin=b"").exit_code == 2


def test_a_failed_append_says_what_is_in_the_ledger(run: Run, client: FakeClient) -> None:
    client.append_failure = LedgerFencedError(0)

    result = run("ledger", "append", stdin=b"a\n")

    assert result.exit_code == 5
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "zbk: ledger 0 is closed; its entries up to -1 are confirmed, up to -1 acknowledged",
        f"zbk: {client.append_failure}",
    ]


def test_append_names_the_bookies_that_lack_entries(run: Run, client: FakeClient) -> None:
    client.under_replicated = {"bookie-b": ((0, 1), (4, 4))}

    result = run("ledger", "append", "-o", "json", stdin=b"a\nb\nc\nd\ne\n")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["under_replicated"] == {"bookie-b": [[0, 1], [4, 4]]}
    assert result.stderr.splitlines() == [
        "zbk: bookie bookie-b did not take entries 0 .. 1, 4",
        (
            "zbk: an ack quorum has them; autorecovery makes the other copies "
            "(`zbk ledger underreplicated` lists the ledgers that still lack some)"
        ),
    ]


def test_append_says_nothing_of_copies_where_all_are_there(run: Run, client: FakeClient) -> None:
    result = run("ledger", "append", "-o", "json", stdin=b"a\n")

    assert client.under_replicated == {}
    assert "under_replicated" not in json.loads(result.stdout)
    assert result.stderr == ""


def test_append_leaves_a_ledger_open_that_would_lose_acknowledged_entries(
    run: Run, client: FakeClient
) -> None:
    client.volatile_count = 2

    result = run("ledger", "append", "--type", "vd", stdin=b"a\nb\nc\n")

    assert (result.exit_code, result.stdout) == (5, "")
    assert "up to 2 are acknowledged, and durable on an ack quorum up to 0" in result.stderr
    assert "`zbk ledger recover 0`" in result.stderr
    assert not client.metadata[0].is_closed


def test_append_drops_acknowledged_entries_only_if_that_is_accepted(
    run: Run, client: FakeClient
) -> None:
    client.volatile_count = 2
    accepted = ("ledger", "append", "--type", "vd", "--accept-loss", "-o", "json")

    result = run(*accepted, stdin=b"a\nb\nc\n")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["last_entry_id"] == 0
    assert result.stderr.splitlines() == [
        "zbk: ledger 0 was closed at entry 0; entries up to 2 were acknowledged and are lost"
    ]


def test_a_failed_append_leaves_the_ledger_to_recovery_if_it_cannot_be_closed_whole(
    run: Run, client: FakeClient
) -> None:
    client.volatile_count = 1
    client.append_failure = LedgerFencedError(0)

    result = run("ledger", "append", "--type", "vd", stdin=b"a\n")

    assert result.stderr.splitlines()[0] == (
        "zbk: ledger 0 is open: `zbk ledger recover 0` closes it; its entries up to -2 are "
        "confirmed, up to -1 acknowledged"
    )


def test_an_entry_that_is_too_large_is_named(run: Run) -> None:
    result = run("ledger", "append", stdin=b"ok\n" + b"x" * (1024 * 1024 + 1))

    assert result.exit_code == 1
    assert result.stderr.endswith("zbk: entry 2 of the input is too large\n")


def test_cat_writes_the_payloads_as_they_are(run: Run, client: FakeClient) -> None:
    client.add_ledger([b"\x00\xff", b"", b"b", b"c", b"d"])

    assert run("ledger", "cat", "0").stdout_bytes == b"\x00\xffbcd"
    assert run("ledger", "cat", "0", "--lines").stdout_bytes == b"\x00\xff\n\nb\nc\nd\n"
    assert run("ledger", "cat", "0", "--first", "2", "--last", "3").stdout_bytes == b"bc"


def test_cat_can_ask_one_bookie_only(run: Run, client: FakeClient) -> None:
    client.add_ledger([b"a"])

    run("ledger", "cat", "0", "--bookie", "bookie-b")

    assert client.readers[0].bookies_asked == ["bookie-b"]


def test_cat_of_an_empty_ledger_writes_nothing(run: Run, client: FakeClient) -> None:
    client.add_ledger([])

    result = run("ledger", "cat", "0")

    assert (result.exit_code, result.stdout_bytes) == (0, b"")


def test_what_append_wrote_cat_gives_back(run: Run, tmp_path: Path) -> None:
    content = bytes(range(256)) * 50
    file = tmp_path / "any"
    file.write_bytes(content)

    run("ledger", "append", str(file), "--chunk", "999")

    assert run("ledger", "cat", "0").stdout_bytes == content


def test_read_lists_entries(run: Run, client: FakeClient) -> None:
    client.add_ledger([b"first", b"\x00\x01", b"third", b"fourth"])

    assert run("ledger", "read", "0", "--last", "1").stdout.splitlines() == [
        "ENTRY-ID  SIZE  PAYLOAD",
        "0         5     first",
        "1         2     0001",
    ]
    lines = run("ledger", "read", "0", "--first", "3", "-o", "json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "entry_id": 3,
            "size": 6,
            "payload": {"base64": base64.b64encode(b"fourth").decode(), "text": "fourth"},
        }
    ]


def test_ls_lists_ledgers(run: Run, client: FakeClient) -> None:
    client.add_ledger([b"abc", b"de"], ledger_type="VD_JOURNAL")
    client.reserve_ledger()

    table = run("ledger", "ls").stdout.splitlines()
    assert [line.split()[:6] for line in table] == [
        ["LEDGER-ID", "STATE", "TYPE", "QUORUM", "LAST-ENTRY-ID", "LENGTH"],
        ["0", "CLOSED", "VD_JOURNAL", "3/3/2", "1", "5"],
        ["1", "OPEN", "PD_JOURNAL", "3/3/2", "-", "-"],
    ]
    (only,) = run("ledger", "ls", "--state", "open", "-o", "json").stdout.splitlines()
    assert json.loads(only)["ledger_id"] == 1
    assert len(run("ledger", "ls", "--limit", "1").stdout.splitlines()) == 2
    (only,) = run("ledger", "ls", "--from", "1", "-o", "json").stdout.splitlines()
    assert json.loads(only)["ledger_id"] == 1
    assert run("ledger", "ls", "--from", "2", "-o", "json").stdout == ""


def test_ls_goes_on_after_damaged_metadata(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ledger in range(3):
        client.add_ledger([b"abc"])
    read = client.get_ledger_metadata

    def fail_for_one(ledger_id: int) -> LedgerMetadata:
        if ledger_id == 1:
            raise CorruptRecordError("/ledgers/1", 0, "is no ledger metadata")
        return read(ledger_id)

    monkeypatch.setattr(client, "get_ledger_metadata", fail_for_one)
    found = run("ledger", "ls", "-o", "json")

    assert [json.loads(line)["ledger_id"] for line in found.stdout.splitlines()] == [0, 2]
    assert "ledger 1: its metadata are damaged: /ledgers/1" in found.stderr
    assert found.exit_code == EXIT_DAMAGE


def test_ls_goes_on_after_the_ledger_of_a_newer_zbk(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ledger in range(2):
        client.add_ledger([b"abc"])
    read = client.get_ledger_metadata

    def fail_for_one(ledger_id: int) -> LedgerMetadata:
        if ledger_id == 0:
            raise UnsupportedVersionError("/ledgers/0: LedgerMetadata has format version 99")
        return read(ledger_id)

    monkeypatch.setattr(client, "get_ledger_metadata", fail_for_one)
    found = run("ledger", "ls", "-o", "json")

    assert [json.loads(line)["ledger_id"] for line in found.stdout.splitlines()] == [1]
    assert "ledger 0: its metadata cannot be read: /ledgers/0" in found.stderr
    assert found.exit_code == EXIT_DAMAGE


def test_show_tells_what_the_metadata_say(run: Run, client: FakeClient) -> None:
    client.add_ledger([b"abc"], custom_metadata={"job": b"nightly", "raw": b"\xff"})

    text = run("ledger", "show", "0").stdout
    assert "state              CLOSED\n" in text
    assert "bookie-a,bookie-b,bookie-c" in text
    shown = json.loads(run("ledger", "show", "0", "-o", "json").stdout)
    assert shown["custom_metadata"]["job"]["text"] == "nightly"
    assert shown["fragments"] == [
        {"first_entry_id": 0, "bookies": ["bookie-a", "bookie-b", "bookie-c"]}
    ]
    assert shown["created"] == "2023-11-14T22:13:20.000Z"


def test_show_close_and_recover_tell_what_a_ledger_lacks(run: Run, client: FakeClient) -> None:
    client.reserve_ledger()
    client.reserve_ledger()
    client.entries[1] = [b"one"]
    task = UnderreplicatedLedger.reported(
        0, ["b1"], MissingReason.NOT_WRITTEN, 1, {"b1": [(57, 457), (459, 459)]}
    )
    client.tasks = dict.fromkeys((0, 1), task)

    texts = [run("ledger", one, "0").stdout for one in ("show", "close")]
    texts.append(run("ledger", "recover", "1").stdout)
    objects = [json.loads(run("ledger", "show", "0", "-o", "json").stdout)]
    objects.append(json.loads(run("ledger", "recover", "1", "-o", "json").stdout))

    for text in texts:
        assert "waiting: b1 (not written)" in text
        assert "b1: 57 .. 457, 459" in text
    for shown in objects:
        reasons = {"b1": ["not written"]}
        assert shown["repair"] == {"state": "waiting", "reasons": reasons, "why": ""}
        assert shown["missing"] == {"b1": [[57, 457], [459, 459]]}


def test_an_unknown_ledger_is_the_callers_fault(run: Run) -> None:
    result = run("ledger", "show", "43")

    assert (result.exit_code, result.stderr) == (1, "zbk: no ledger 43\n")


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
