"""`zbk ledger cat`, `read`, `ls` and `show` against a client in memory."""

import base64
import json
from pathlib import Path

import pytest

from tests.support.cli import Run
from tests.support.fake_client import FakeClient
from zbk.errors import EXIT_DAMAGE, CorruptRecordError, UnsupportedVersionError
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.underreplicated import MissingReason, UnderreplicatedLedger


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
