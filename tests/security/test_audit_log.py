"""The audit log of real bookies and commands: who did what, and who was refused."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import zbk
from tests.security.test_rights_matrix import built
from tests.support.cluster import QUICK, Shell, lone_ledger
from tests.support.http import Scrape, ask
from tests.support.secure_cluster import Keyring
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.errors import EXIT_CALLER, UnauthorizedError, ZbkError
from zbk.wire.messages import AddAnswer

PASSWORD = b"s3cret-of-a-ledger"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    return Keyring.of(tmp_path_factory.mktemp("keys"), "bookie", "alice", "stranger")


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, keys: Keyring, audit_log: Path
) -> Iterator[LocalCluster]:
    flags = ("--key", keys.path("bookie"), "--audit-log", str(audit_log))
    folder = tmp_path_factory.mktemp("cluster") / "data"
    with LocalCluster(folder, bookie_count=1, bookie_options=QUICK, bookie_flags=flags) as running:
        keys.admit(running, "alice", "alice")
        yield running


def lines(audit_log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in audit_log.read_text("utf-8").splitlines()]


def wait_for(audit_log: Path, **wanted: object) -> dict[str, Any]:
    """Return a line with these fields, once there is one."""

    def found() -> dict[str, Any] | None:
        return next((one for one in lines(audit_log) if one.items() >= wanted.items()), None)

    wait_until(lambda: found() is not None)
    line = found()
    assert line is not None
    return line


def test_a_ledger_is_created_and_recovered_by_a_principal(
    cluster: LocalCluster, keys: Keyring, audit_log: Path
) -> None:
    http = cluster.bookies[0].http
    count = Scrape(http).value("zbk_audit_records_total", result="written")
    with keys.connect(cluster, "alice") as client:
        writer = client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, password=PASSWORD
        )
        writer.append(b"the payload")
        ledger_id = writer.ledger_id
        created = wait_for(audit_log, action="create", ledger_id=ledger_id)
        client.recover_ledger(ledger_id, PASSWORD)
        fenced = wait_for(audit_log, action="fence", ledger_id=ledger_id)
        with pytest.raises(UnauthorizedError):
            client.open_ledger(ledger_id, b"wrong-password")
    for one in (created, fenced):
        assert one["principal"] == "alice"
        assert keys.public("alice").public_key.startswith(one["key_id"])
        assert one["address"].startswith("127.0.0.1:")
        assert one["process"] == f"bookie {cluster.bookies[0].bookie_id}"
    wait_until(lambda: Scrape(http).value("zbk_audit_records_total", result="written") >= count + 2)
    text = audit_log.read_text("utf-8")
    for secret in (PASSWORD.decode(), "the payload", "wrong-password"):
        assert secret not in text


def test_strangers_are_refused_in_lines(
    cluster: LocalCluster, keys: Keyring, audit_log: Path
) -> None:
    with suppress(ZbkError), keys.connect(cluster, "stranger") as client:
        client.bookie_info(cluster.bookies[0].bookie_id)
    stranger = keys.public("stranger").public_key
    refused = wait_for(audit_log, action="authenticate", outcome="refused", key_id=stranger[:10])
    assert refused["address"].startswith("127.0.0.1")
    assert "principal" not in refused


def test_calls_of_the_admin_api_are_lines(cluster: LocalCluster, audit_log: Path) -> None:
    answer = ask(f"{cluster.bookies[0].http}/api/v1/ledger/delete?ledger_id=0", "DELETE")
    assert answer.status == 403
    line = wait_for(audit_log, action="admin", what="DELETE /api/v1/ledger/delete")
    assert line["outcome"] == "refused"
    assert line["address"].startswith("127.0.0.1:")


def test_lines_of_the_admin_api_count_in_the_metric_of_the_bookie(
    cluster: LocalCluster, audit_log: Path
) -> None:
    http = cluster.bookies[0].http
    count = Scrape(http).value("zbk_audit_records_total", result="written")
    ask(f"{http}/api/v1/ledger/delete?ledger_id=17", "DELETE")
    wait_for(audit_log, action="admin", what="DELETE /api/v1/ledger/delete")
    wait_until(lambda: Scrape(http).value("zbk_audit_records_total", result="written") > count)


def test_a_recovery_that_writes_an_entry_back_is_a_line(
    cluster: LocalCluster, keys: Keyring, audit_log: Path
) -> None:
    bookie_id = cluster.bookies[0].bookie_id
    with keys.connect(cluster, "alice") as client:
        ledger_id = lone_ledger(client).ledger_id
        reply = client._requests.ask(bookie_id, *built("recovery add", ledger_id))
        assert isinstance(reply.outcome, AddAnswer)
        line = wait_for(audit_log, action="recovery", ledger_id=ledger_id)
    assert line["outcome"] == "done"
    assert line["principal"] == "alice"


def test_a_client_writes_what_it_does_in_the_metadata(
    cluster: LocalCluster, keys: Keyring, tmp_path: Path
) -> None:
    own = tmp_path / "client.log"
    key = keys.path("alice")
    with zbk.connect(cluster.metadata_uri, key=key, audit_log=str(own)) as alice:
        with lone_ledger(alice) as ledger:
            ledger.append(b"x")
        alice.grant(ledger.ledger_id, "bob", ["read"])
        alice.revoke(ledger.ledger_id, "bob")
        alice.delete_ledger(ledger.ledger_id)
        with pytest.raises(zbk.NoSuchLedgerError):
            alice.delete_ledger(ledger.ledger_id)
    found = lines(own)
    ledger_id = ledger.ledger_id
    assert [(one["action"], one["outcome"], one.get("what", "")) for one in found] == [
        ("create", "done", ""),
        ("grant", "done", "grant bob read"),
        ("grant", "done", "revoke bob append,read,recover,delete,admin"),
        ("delete", "done", ""),
        ("delete", "failed", ""),
    ]
    for one in found:
        assert one["ledger_id"] == ledger_id
        assert one["principal"] == "alice"
        assert one["process"] == "client"
        assert one["user"]
    assert own.stat().st_mode & 0o777 == 0o600


def test_commands_on_grants_are_lines(
    cluster: LocalCluster, keys: Keyring, audit_log: Path, tmp_path: Path
) -> None:
    given = {
        "ZBK_AUDIT_LOG": str(audit_log),
        "ZBK_METADATA": cluster.metadata_uri,
        "ZBK_KEY": keys.path("alice"),
    }
    shell = Shell(tmp_path, given)
    with keys.connect(cluster, "alice") as alice, lone_ledger(alice) as ledger:
        ledger.append(b"x")
    shell.run("ledger", "grant", str(ledger.ledger_id), "bob", "read")
    shell.run("namespace", "add", "orders")
    shell.run("namespace", "grant", "orders", "bob", "append")
    shell.run("namespace", "limit", "orders", "--ledgers", "3")
    shell.run("namespace", "rm", "orders")
    shell.run(
        "ledger", "grant", str(ledger.ledger_id + 1_000), "bob", "read", exit_code=EXIT_CALLER
    )

    assert wait_for(audit_log, action="grant", ledger_id=ledger.ledger_id)["outcome"] == "done"
    failed = wait_for(audit_log, action="grant", ledger_id=ledger.ledger_id + 1_000)
    assert failed["outcome"] == "failed"
    for what in (
        "add namespace orders",
        "namespace orders: grant bob append",
        "limit namespace orders",
        "remove namespace orders",
    ):
        assert wait_for(audit_log, action="grant", what=what)["outcome"] == "done"


def test_commands_on_principals_and_keys_are_lines(
    cluster: LocalCluster, audit_log: Path, tmp_path: Path
) -> None:
    given = {"ZBK_AUDIT_LOG": str(audit_log), "ZBK_METADATA": cluster.metadata_uri}
    shell = Shell(tmp_path, given)
    shell.run("key", "generate", "carol", "--dir", str(tmp_path))
    shell.run("principal", "add", "carol", "--key", str(tmp_path / "carol.pub"))
    shell.run("principal", "rm", "carol")
    made = wait_for(audit_log, action="principal", what="remove carol, all keys")
    assert made["outcome"] == "done"
    assert made["user"]
    assert wait_for(audit_log, action="key")["what"].startswith("generate carol, key ")
    secret = (tmp_path / "carol.key").read_text("ascii").rpartition("secret_key = ")[2].strip()
    assert secret.strip('"') not in audit_log.read_text("utf-8")
    assert audit_log.stat().st_mode & 0o777 == 0o600
