"""`zbk ledger append` against a client in memory: its input, and the losses that it names."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run
from tests.support.fake_client import FakeClient
from zbk.errors import LedgerFencedError


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
