"""``zbk ledger ls`` with filters: each alone, and several together."""

import json
from typing import Any

import msgspec
import pytest

from tests.support.cli import Run
from tests.support.fake_client import FakeClient
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import wall_ms

HOUR_MS = 3_600_000


@pytest.fixture
def ledgers(client: FakeClient) -> FakeClient:
    """Ledger 0: closed, PD, 10 B, old. 1: open, VD, new, nightly. 2: closed, VD, 3,000 B, new."""
    client.add_ledger([b"x" * 10], custom_metadata={"job": b"daily", "team": b"a"})
    client.reserve_ledger(ledger_type="VD_JOURNAL", custom_metadata={"job": b"nightly"})
    client.add_ledger([b"x" * 3_000], ledger_type="VD_JOURNAL", custom_metadata={"team": b"a"})
    for ledger_id, age_ms in ((0, 48 * HOUR_MS), (1, HOUR_MS), (2, HOUR_MS)):
        created_ms = wall_ms() - age_ms
        found = client.metadata[ledger_id]
        client.metadata[ledger_id] = msgspec.structs.replace(found, created_ms=created_ms)
    return client


def ids(run: Run, *arguments: str) -> list[Any]:
    result = run("ledger", "ls", "-o", "json", *arguments)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["ledger_id"] for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("ledgers")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", [0, 1, 2]),
        ("--state closed", [0, 2]),
        ("--state OPEN", [1]),
        ("--type pd", [0]),
        ("--type vd", [1, 2]),
        ("--older-than 1d", [0]),
        ("--older-than 30min", [0, 1, 2]),
        ("--newer-than 2h", [1, 2]),
        ("--newer-than 1s", []),
        ("--larger-than 10", [2]),
        ("--larger-than 2KiB", [2]),
        ("--smaller-than 1KiB", [0]),
        ("--custom job=nightly", [1]),
        ("--custom team=a", [0, 2]),
        ("--custom team=a --custom job=daily", [0]),
        ("--custom team=", []),
        ("--type vd --newer-than 1d --larger-than 1KiB --state closed", [2]),
        ("--type vd --older-than 1d", []),
        ("--custom team=a --limit 1", [0]),
    ],
)
def test_ls_lists_what_passes_all_filters(run: Run, arguments: str, expected: list[int]) -> None:
    assert ids(run, *arguments.split()) == expected


@pytest.mark.parametrize(
    "arguments",
    ["--older-than soon", "--larger-than much", "--custom job", "--type xx", "--older-than 0"],
)
def test_a_filter_without_a_meaning_is_a_mistake_of_use(run: Run, arguments: str) -> None:
    result = run("ledger", "ls", *arguments.split())

    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize("short", ["pd", "vd", "vd-bypass"])
def test_ls_takes_the_name_of_each_type_as_it_prints_it(
    run: Run, client: FakeClient, short: str
) -> None:
    for ledger_type in LedgerType:
        client.reserve_ledger(ledger_type=ledger_type)

    def found(name: str) -> list[dict[str, Any]]:
        lines = run("ledger", "ls", "--type", name, "-o", "json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    (row,) = found(short)
    assert row["type"] in set(LedgerType)
    assert found(row["type"]) == found(row["type"].lower()) == found(short.upper()) == [row]
    wrong = run("ledger", "ls", "--type", "durable")
    assert wrong.exit_code == 2
    assert "'pd', 'vd', 'vd-bypass'" in wrong.stderr
