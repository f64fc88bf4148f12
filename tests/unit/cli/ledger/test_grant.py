"""`zbk ledger grant`, and the options of a new ledger that grant rights."""

import json

import pytest

from tests.support.cli import Run
from tests.support.fake_client import FakeClient
from zbk.protocol.ledger.access import Right


def test_a_new_ledger_has_a_namespace_and_grants(run: Run, client: FakeClient) -> None:
    options = ("--namespace", "orders/eu", "--grant", "bob=read,append", "--grant", "*=read")

    assert run("ledger", "create", *options).exit_code == 0
    access = client.metadata[0].known_access
    assert (access.namespace, access.grants) == (
        "orders/eu", {"bob": (Right.APPEND, Right.READ), "*": (Right.READ,)}
    )  # fmt: skip
    shown = json.loads(run("ledger", "show", "0", "-o", "json").stdout)
    assert (shown["owner"], shown["namespace"]) == ("me", "orders/eu")
    assert shown["grants"] == {"bob": ["append", "read"], "*": ["read"]}


def test_grants_are_given_and_taken(run: Run, client: FakeClient) -> None:
    client.reserve_ledger()

    given = json.loads(run("ledger", "grant", "0", "bob", "read", "delete", "-o", "json").stdout)
    taken = json.loads(run("ledger", "grant", "0", "bob", "read", "--revoke", "-o", "json").stdout)

    assert given["grants"] == {"bob": ["read", "delete"]}
    assert taken == {
        "ledger_id": 0,
        "owner": "",
        "namespace": "default",
        "grants": {"bob": ["delete"]},
    }


def test_ledgers_are_listed_by_owner_and_namespace(run: Run, client: FakeClient) -> None:
    for namespace in ("", "orders", "orders/eu", "ordersx"):
        client.reserve_ledger(namespace=namespace)

    def listed(*options: str) -> list[int]:
        lines = run("ledger", "ls", *options, "-o", "json").stdout.splitlines()
        return [json.loads(line)["ledger_id"] for line in lines]

    assert listed("--namespace", "orders") == [1, 2]
    assert listed("--namespace", "default") == [0]
    assert listed("--owner", "me", "--namespace", "orders/eu") == [2]
    assert listed("--owner", "me") == [1, 2, 3]
    assert listed("--owner", "bob") == []


def test_a_plain_ledger_shows_no_owner(run: Run, client: FakeClient) -> None:
    client.reserve_ledger()

    assert "owner" not in run("ledger", "show", "0").stdout


@pytest.mark.parametrize("text", ["bob", "=read", "bob="])
def test_a_grant_without_a_right_is_a_mistake_of_use(run: Run, text: str) -> None:
    result = run("ledger", "create", "--grant", text)

    assert result.exit_code == 2
    assert "is not PRINCIPAL=RIGHT" in result.stderr


def test_an_unknown_right_is_named(run: Run, client: FakeClient) -> None:
    client.reserve_ledger()

    result = run("ledger", "grant", "0", "bob", "write")

    assert result.exit_code == 1
    assert "give one of append, read, recover, delete, admin" in result.stderr
