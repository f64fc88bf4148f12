"""`zbk namespace ...` on a metadata store."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from zbk.cli.main import cli
from zbk.errors import MetadataUnavailableError, exit_code_of
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.namespace_usage import UsageStore
from zbk.metadata.stores.connect import open_store


class Namespaces:
    """Runs the commands on a cluster without bookies."""

    def __init__(self, metadata: str) -> None:
        self._metadata = metadata

    def run(self, *arguments: str, exit_code: int = 0) -> list[dict[str, Any]]:
        """Run a command; return its rows."""
        formats = () if arguments[0] == "rm" else ("-o", "json")
        line = ["namespace", *arguments, "--metadata", self._metadata, *formats]
        done = CliRunner().invoke(cli, line)
        assert done.exit_code == exit_code, done.stderr
        self.errors = done.stderr
        return [json.loads(one) for one in done.stdout.splitlines()]


@pytest.fixture
def namespaces(tmp_path: Path) -> Namespaces:
    metadata = f"sqlite://{tmp_path}/metadata.db"
    store = open_store(metadata)
    initialise(store)
    store.close()
    return Namespaces(metadata)


def test_a_namespace_is_added_granted_limited_and_removed(namespaces: Namespaces) -> None:
    run = namespaces.run
    added = run("add", "orders", "--grant", "bob=read,append", "--ledgers", "9")
    run("add", "orders/eu", "--grant", "*=read")

    assert added == [
        {
            "path": "orders",
            "grants": {"bob": ["append", "read"]},
            "ledger_count": 0,
            "ledger_count_max": 9,
            "size": 0,
            "size_max": 0,
        }
    ]
    [granted] = run("grant", "orders", "carol", "recover")
    assert granted["grants"] == {"bob": ["append", "read"], "carol": ["recover"]}
    [revoked] = run("grant", "orders", "bob", "append", "read", "--revoke")
    assert revoked["grants"] == {"carol": ["recover"]}
    [limited] = run("limit", "orders", "--bytes", "1KiB")
    assert (limited["ledger_count_max"], limited["size_max"]) == (0, 1024)
    assert [row["path"] for row in run("show", "orders/eu/2024")] == ["orders", "orders/eu"]
    assert [row["path"] for row in run("ls")] == ["orders", "orders/eu"]
    run("rm", "orders")
    assert [row["path"] for row in run("ls")] == ["orders/eu"]
    assert run("add", "orders") == [{"path": "orders", "grants": {}}]  # its limits are gone


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("add", "a//b"), "with / between them"),
        (("add", "orders", "--grant", "bob=write"), "give one of append"),
        (("add", "default", "--ledgers", "9"), "it has no limits"),
        (("show", "gone"), "no namespace 'gone'"),
        (("rm", "gone"), "no namespace 'gone'"),
        (("limit", "gone", "--ledgers", "1"), "no namespace 'gone'"),
        (("grant", "gone", "*", "read"), "no namespace 'gone'"),
    ],
)
def test_a_mistake_is_named(namespaces: Namespaces, arguments: tuple[str, ...], why: str) -> None:
    namespaces.run(*arguments, exit_code=1)

    assert why in namespaces.errors
    assert namespaces.run("ls") == []


def test_a_removal_that_the_store_cuts_is_finished_by_the_next(
    namespaces: Namespaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits without a namespace counted on, also for namespaces below it."""
    namespaces.run("add", "orders", "--ledgers", "9")
    remove = UsageStore.remove
    failures = [MetadataUnavailableError("sqlite://", "no answer")]

    def cut(self: UsageStore, namespace: str) -> None:
        if failures:
            raise failures.pop()
        remove(self, namespace)

    monkeypatch.setattr(UsageStore, "remove", cut)
    namespaces.run("rm", "orders", exit_code=exit_code_of(MetadataUnavailableError))

    namespaces.run("rm", "orders")
    [added] = namespaces.run("add", "orders")

    assert "ledger_count_max" not in added
