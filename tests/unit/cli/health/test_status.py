"""``zbk status`` on a metadata store in a file; nothing runs beside it."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import Cookie


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = f"sqlite://{tmp_path}/metadata.db"
    store = open_store(uri)
    instance = initialise(store)
    cookie = Cookie(
        bookie_id="b-1", instance_id=instance, journal_dirs=("/j",), ledger_dirs=("/l",),
        created_ms=0,
    )  # fmt: skip
    BookieRegistry(store).create_cookie(cookie)
    store.close()
    return uri


def test_each_problem_is_a_line_and_the_exit_code_is_10(run: Run, uri: str) -> None:
    result = run("status", "--metadata", uri)

    assert result.exit_code == 10
    assert result.stderr == ""
    screen, _, problems = result.stdout.partition("\n\n")
    assert "state         3 problems" in screen
    assert "0 of 1 registered" in screen
    assert [line.split(":")[0] for line in problems.splitlines()] == ["problem"] * 3
    assert "zbk bookie decommission b-1" in problems
    assert len(result.stdout.splitlines()) <= 24


def test_json_has_the_same_findings(run: Run, uri: str) -> None:
    result = run("status", "--metadata", uri, "-o", "json")

    assert result.exit_code == 10
    shown = json.loads(result.stdout)
    assert (shown["is_healthy"], shown["is_store_reachable"]) == (False, True)
    assert shown["missing_bookies"] == ["b-1"]
    kinds = [one["kind"] for one in shown["findings"]]
    assert kinds == ["bookies-missing", "no-writable-bookie", "no-auditor"]
    assert shown["findings"][0]["subjects"] == ["b-1"]


def test_without_a_cluster_it_is_a_wrong_call(run: Run) -> None:
    result = run("status")

    assert result.exit_code == 1
    assert "zbk up" in result.stderr


def test_a_store_that_does_not_answer_is_the_one_problem(run: Run) -> None:
    arguments = ("status", "--metadata", "zk://127.0.0.1:1/zbk", "--timeout", "200ms", "-o")

    result = run(*arguments, "json")

    assert result.exit_code == 10
    shown = json.loads(result.stdout)
    assert [one["kind"] for one in shown["findings"]] == ["store-unreachable"]
    assert shown["ledger_count"] is None
    assert "state     1 problem" in run(*arguments, "table").stdout
