"""`zbk log ...`, and `--follow` of ledgers, against a client in memory."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run
from tests.support.fake_client import FakeClient
from zbk.errors import EXIT_DAMAGE, CorruptRecordError
from zbk.protocol.log.metadata import LogMetadata


def test_append_makes_a_log_of_lines_and_says_where_they_are(
    run: Run, client: FakeClient, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\n\ntwo")

    result = run("log", "append", "orders", str(file), "-o", "json")

    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    del shown["seconds"]
    assert shown == {
        "log": "orders", "entry_count": 3, "payload_size": 6, "first": "0:0", "last": "0:2",
    }  # fmt: skip
    assert client.ledgers_of["orders"] == {0: [b"one", b"", b"two"]}
    assert client.log_handles[0].is_closed


def test_append_goes_on_where_the_log_ends(run: Run, client: FakeClient) -> None:
    client.add_log("orders", [b"1", b"2", b"3"])

    result = run("log", "append", "orders", "--whole", "-o", "json", stdin=b"a\nb\n")

    assert json.loads(result.stdout)["first"] == "2:0"
    assert client.ledgers_of["orders"][2] == [b"a\nb\n"]


def test_options_of_append_are_those_of_its_ledgers(run: Run, client: FakeClient) -> None:
    run("log", "append", "orders", "-E", "4", "--type", "vd", "--roll-size", "1MiB", stdin=b"x")

    options = client.log_options
    assert (options["ensemble_size"], options["ledger_type"]) == (4, "VD_JOURNAL")
    assert options["roll_size"] == 1024 * 1024


def test_append_can_refuse_to_make_a_log(run: Run) -> None:
    result = run("log", "append", "orders", "--no-create", stdin=b"x")

    assert (result.exit_code, result.stderr) == (1, "zbk: no log 'orders'\n")


def test_an_owner_that_is_fenced_exits_with_a_code_of_its_own(run: Run, client: FakeClient) -> None:
    client.fence_log("orders")

    result = run("log", "append", "orders", stdin=b"x")

    assert result.exit_code == 5
    assert "taken over by another client" in result.stderr


def test_two_framings_at_once_are_a_mistake_of_use(run: Run) -> None:
    result = run("log", "append", "orders", "--lines", "--whole", stdin=b"x")

    assert result.exit_code == 2


@pytest.mark.parametrize("options", [[], ["--follow"]])
def test_cat_writes_what_is_in_the_ledgers_one_after_the_other(
    run: Run, client: FakeClient, options: list[str]
) -> None:
    client.add_log("orders", [b"1", b"2"], [], [b"3"])

    assert run("log", "cat", "orders", *options).stdout == "123"
    assert run("log", "cat", "orders", "--lines", *options).stdout == "1\n2\n3\n"
    assert run("log", "cat", "orders", "--from", "0:1", *options).stdout == "23"


def test_cat_refuses_what_is_no_position(run: Run, client: FakeClient) -> None:
    client.add_log("orders", [b"1"])

    result = run("log", "cat", "orders", "--from", "12")

    assert result.exit_code == 2
    assert "'12' is not LEDGER:ENTRY" in result.stderr


def test_cat_says_when_the_position_was_cut_off(run: Run, client: FakeClient) -> None:
    client.add_log("orders", [b"1"], [b"2"])
    run("log", "truncate", "orders", "2:0", "--yes")

    result = run("log", "cat", "orders", "--from", "0:0")

    assert result.exit_code == 1
    assert "was truncated: 0:0 is gone, it begins at 2:0" in result.stderr


def test_ls_lists_the_logs(run: Run, client: FakeClient) -> None:
    client.add_log("orders", [b"1"], [b"2"])
    client.add_log("audit")

    table = run("log", "ls").stdout.splitlines()
    rows = [json.loads(line) for line in run("log", "ls", "-o", "json").stdout.splitlines()]

    assert table[0].split() == ["LOG", "LEDGER-COUNT", "BEGIN", "LAST-LEDGER-ID", "CREATED"]
    assert [(row["log"], row["ledger_count"], row["begin"]) for row in rows] == [
        ("audit", 0, None), ("orders", 2, "0:0"),
    ]  # fmt: skip


def test_ls_goes_on_after_damaged_metadata(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.add_log("audit")
    client.add_log("orders", [b"1"])
    read = client.get_log_metadata

    def fail_for_one(name: str) -> LogMetadata:
        if name == "audit":
            raise CorruptRecordError("/logs/audit", 0, "is no log")
        return read(name)

    monkeypatch.setattr(client, "get_log_metadata", fail_for_one)
    found = run("log", "ls", "-o", "json")

    assert [json.loads(line)["log"] for line in found.stdout.splitlines()] == ["orders"]
    assert "log audit: its metadata are damaged: /logs/audit" in found.stderr
    assert found.exit_code == EXIT_DAMAGE


def test_show_shows_the_ledgers(run: Run, client: FakeClient) -> None:
    client.add_ledger([b"1", b"2"])
    client.add_log("orders", [b"1", b"2"], [])

    shown = json.loads(run("log", "show", "orders", "-o", "json").stdout)
    table = run("log", "show", "orders").stdout

    assert (shown["last_ledger_id"], shown["truncated_ledger_count"]) == (2, 0)
    assert [ledger["state"] for ledger in shown["ledgers"]] == ["CLOSED", "DELETED"]
    assert shown["ledgers"][0]["last_entry_id"] == 1
    assert "LEDGER-ID  STATE" in table


def test_truncate_says_how_much_went(run: Run, client: FakeClient) -> None:
    client.add_log("orders", [b"1"], [b"2"], [b"3"])

    result = run("log", "truncate", "orders", "4:0", "--yes", "-o", "json")

    assert json.loads(result.stdout) == {
        "log": "orders", "deleted_ledger_count": 2, "begin": "4:0",
    }  # fmt: skip


def test_truncate_asks_or_wants_yes(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.add_log("orders", [b"1"], [b"2"], [b"3"])
    asked: list[str] = []

    def answer(question: str, **_options: object) -> bool:
        asked.append(question)
        return len(asked) > 1

    refused = run("log", "truncate", "orders", "4:0")
    assert refused.exit_code == 2
    assert "give --yes" in refused.stderr

    monkeypatch.setattr("zbk.cli.confirmation.is_terminal", lambda _stream: True)
    monkeypatch.setattr("click.confirm", answer)
    declined = run("log", "truncate", "orders", "4:0")
    assert (declined.exit_code, declined.stdout) == (0, "")
    assert "nothing was changed" in declined.stderr
    assert len(client.ledgers_of["orders"]) == 3

    assert run("log", "truncate", "orders", "4:0").exit_code == 0
    assert asked == ["Delete the first 2 of 3 ledgers of orders?"] * 2
    assert len(client.ledgers_of["orders"]) == 1


def test_delete_asks_or_wants_yes(run: Run, client: FakeClient) -> None:
    client.add_log("orders", [b"1"])

    assert run("log", "delete", "orders").exit_code == 2
    assert "orders" in client.ledgers_of
    assert run("log", "delete", "orders", "--yes").exit_code == 0
    assert "orders" not in client.ledgers_of


@pytest.mark.parametrize("command", ["cat", "read"])
def test_a_ledger_is_followed_from_its_first_entry(
    run: Run, client: FakeClient, command: str
) -> None:
    client.add_ledger([b"a", b"b", b"c", b"d"])

    result = run("ledger", command, "0", "--first", "2", "--follow")

    assert result.exit_code == 0
    assert ("cd" if command == "cat" else "3         1     d") in result.stdout


@pytest.mark.parametrize("option", [["--last", "3"], ["--bookie", "bookie-a"]])
def test_follow_goes_with_no_end(run: Run, client: FakeClient, option: list[str]) -> None:
    client.add_ledger([b"a"])

    assert run("ledger", "cat", "0", "--follow", *option).exit_code == 2
