"""Every principal x every operation x every ledger, against a real bookie: nothing wrong.

What is expected stands here in words, and is not computed by the rules under test.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import get_args

import pytest

import zbk
from tests.support.cluster import QUICK, lone_ledger
from tests.support.ledgers import metadata_maker
from tests.support.secure_cluster import Keyring, change_namespaces
from tests.support.storage_actor import batch
from tests.support.waiting import wait_until
from zbk.client.cluster.ledger_calls import BuiltRequest, LedgerRequests, info_request
from zbk.cluster.local import LocalCluster
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.namespace_usage import UsageStore
from zbk.metadata.stores.connect import open_store
from zbk.protocol.entry.digest import ledger_key
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.access import grants_of
from zbk.security.namespaces import Namespace
from zbk.transport.events import Reply
from zbk.wire.messages import (
    CollectGarbage,
    GetBookieInfo,
    Hello,
    LacsRisen,
    LacWatch,
    Message,
    Ping,
    Request,
    Scrub,
    WatchLacs,
)

RIGHTS = ("append", "read", "recover", "delete", "admin")
GRANTEES = {f"may-{right}": [right] for right in RIGHTS}
ROLES = ("operator", "bookie", "auditor")
PRINCIPALS = ("alice", "mallory", *GRANTEES, *ROLES)

# ------------------------------------------------------------------ who may do what

LEDGERS: dict[str, tuple[str, dict[str, list[str]]]] = {
    "hers": ("", {}),
    "granted": ("", GRANTEES),
    "read by all": ("", {"*": ["read"]}),
    "orders": ("orders", {}),
    "orders/eu": ("orders/eu", {}),
    "sales": ("sales", {}),
}
"""Ledgers of alice: namespace and grants. A further one, "plain", has no owner."""

NAMESPACES = {"orders": GRANTEES | {"alice": ["append"]}, "sales": {"alice": ["append"]}}

OPERATIONS = {
    "add": "append",
    "write_lac": "append",
    "sync": "append",
    "recovery add": "recover",
    "read": "read",
    "read_lac": "read",
    "poll": "read",
    "watch_lacs": "read",
    "fencing read": "recover",
    "fence": "recover",
    "info": "inspect",
    "grant": "admin",
    "delete": "delete",
}
"""What each operation needs. Deletions come last, fences after what they stop."""

OF_ROLES = {
    "operator": {*RIGHTS, "inspect"},
    "bookie": {"read", "recover", "inspect"},
    "auditor": {"inspect"},
}
INCLUDED = {"read": {"inspect"}, "recover": {"read", "inspect"}}


def expected(principal: str, ledger: str, need: str) -> bool:
    if principal in OF_ROLES and need in OF_ROLES[principal]:
        return True
    if ledger == "plain":
        return need != "admin"
    if principal == "alice":
        return True
    if ledger == "read by all" and need in {"read", "inspect"}:
        return True
    if ledger in {"granted", "orders", "orders/eu"} and principal in GRANTEES:
        right = principal.removeprefix("may-")
        return need in {right, *INCLUDED.get(right, set())}
    return False


BOOKIE_OPERATIONS: dict[str, tuple[Message, set[str]]] = {
    "gc": (CollectGarbage(request_id=0), {"operator"}),
    "suspend": (
        CollectGarbage(request_id=0, is_round_wanted=False, suspend=["minor"]), {"operator"},
    ),
    "look at gc": (CollectGarbage(request_id=0, is_round_wanted=False), set(ROLES)),
    "scrub": (Scrub(request_id=0), {"operator"}),
    "look at scrub": (Scrub(request_id=0, is_pass_wanted=False), set(ROLES)),
    "bookie_info": (GetBookieInfo(request_id=0), set(PRINCIPALS)),
}  # fmt: skip


def test_the_matrix_has_every_operation_of_the_wire() -> None:
    on_ledgers = {
        type(built(operation, 0)[0])
        for operation in OPERATIONS
        if operation not in {"watch_lacs", "grant", "delete"}
    }
    on_bookies = {type(request) for request, _allowed in BOOKIE_OPERATIONS.values()}

    assert on_ledgers | on_bookies | {WatchLacs, Hello, Ping} == {*get_args(Request)}


# ------------------------------------------------------------------ the cluster


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    return Keyring.of(tmp_path_factory.mktemp("keys"), "host", *PRINCIPALS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, keys: Keyring) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    flags = ("--key", keys.path("host"))
    with LocalCluster(folder, bookie_count=1, bookie_options=QUICK, bookie_flags=flags) as running:
        for name in PRINCIPALS:
            keys.admit(running, name, name, *({name} & set(ROLES)))
        made = tuple(
            Namespace(path=path, grants=grants_of(grants)) for path, grants in NAMESPACES.items()
        )
        change_namespaces(running, lambda _now: made)
        keys.wait_for(running, *PRINCIPALS)
        yield running


@pytest.fixture(scope="module")
def clients(cluster: LocalCluster, keys: Keyring) -> Iterator[dict[str, zbk.Client]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(keys.connect(cluster, name)) for name in PRINCIPALS}


def plain_ledger(cluster: LocalCluster) -> int:
    """Create a ledger without an owner, as a client without a key does."""
    store = open_store(cluster.metadata_uri)
    try:
        return LedgerStore(store).create(metadata_maker())[0].ledger_id
    finally:
        store.close()


def make_ledger(clients: dict[str, zbk.Client], cluster: LocalCluster, name: str) -> int:
    if name == "plain":
        return plain_ledger(cluster)
    namespace, grants = LEDGERS[name]
    return clients["alice"].reserve_ledger(
        ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, namespace=namespace, grants=grants
    )


# ------------------------------------------------------------------ operations


def built(operation: str, ledger_id: int) -> BuiltRequest:
    calls = LedgerRequests(ledger_id, LedgerType.PD_JOURNAL, ledger_key(b"", ledger_id))
    entry = batch(0, [b"first"], ledger_id=ledger_id)
    return {
        "add": calls.add(entry, -1),
        "recovery add": calls.add(entry, -1, is_recovery=True),
        "write_lac": calls.write_lac(0),
        "sync": calls.sync(0),
        "read": calls.read(range(1), 1 << 20),
        "fencing read": calls.read(range(1), 1 << 20, is_fencing=True),
        "read_lac": calls.read_lac(),
        "poll": calls.read_lac(wait_ms=1),
        "fence": calls.read_lac(is_fencing=True),
        "info": info_request(ledger_id),
    }[operation]


def is_denied(client: zbk.Client, bookie_id: str, operation: str, ledger_id: int) -> bool:
    """Do something; return whether it was refused for want of a right."""
    try:
        if operation == "grant":
            client.grant(ledger_id, "mallory", ["read"])
            client.revoke(ledger_id, "mallory")
        elif operation == "delete":
            client.delete_ledger(ledger_id)
        elif operation == "watch_lacs":
            return is_watch_denied(client, bookie_id, ledger_id)
        else:
            reply = ask(client, bookie_id, *built(operation, ledger_id))
            return isinstance(reply.outcome, zbk.AccessDeniedError)
    except zbk.AccessDeniedError:
        return True
    return False


def ask(
    client: zbk.Client, bookie_id: str, request: Message, frames: tuple[bytes, ...] = ()
) -> Reply:
    return client._requests.ask(bookie_id, request, frames)


def is_watch_denied(client: zbk.Client, bookie_id: str, ledger_id: int) -> bool:
    begun = [LacWatch(1, ledger_id, ledger_key(b"", ledger_id), LedgerType.PD_JOURNAL, -1)]
    request = WatchLacs(request_id=0, session_id=ledger_id, is_first=True, begun=begun, wait_ms=200)
    outcome = ask(client, bookie_id, request).outcome
    assert isinstance(outcome, LacsRisen)
    return [one.code for one in outcome.refused] == [zbk.AccessDeniedError.code]


@pytest.mark.parametrize("ledger", [*LEDGERS, "plain"])
def test_each_principal_does_what_it_may_and_nothing_else(
    cluster: LocalCluster, clients: dict[str, zbk.Client], ledger: str
) -> None:
    bookie_id = cluster.bookies[0].bookie_id
    shared = make_ledger(clients, cluster, ledger)
    wrong = []
    for operation, need in OPERATIONS.items():
        for name, client in clients.items():
            is_last = operation == "delete"
            ledger_id = make_ledger(clients, cluster, ledger) if is_last else shared
            denied = is_denied(client, bookie_id, operation, ledger_id)
            if denied is expected(name, ledger, need):
                wrong.append((name, operation, "denied" if denied else "allowed"))

    assert wrong == []


@pytest.mark.parametrize("operation", BOOKIE_OPERATIONS)
def test_each_principal_operates_bookies_as_its_role_says(
    cluster: LocalCluster, clients: dict[str, zbk.Client], operation: str
) -> None:
    request, allowed = BOOKIE_OPERATIONS[operation]
    bookie_id = cluster.bookies[0].bookie_id

    found = {
        name
        for name, client in clients.items()
        if not isinstance(ask(client, bookie_id, request).outcome, zbk.RoleRequiredError)
    }

    assert found == allowed


@pytest.mark.parametrize("namespace", ["orders", "orders/us", "sales"])
def test_who_may_append_in_a_namespace_creates_ledgers_in_it(
    clients: dict[str, zbk.Client], namespace: str
) -> None:
    allowed = {"alice", "operator"} | ({"may-append"} if namespace != "sales" else set())
    found = set()
    for name, client in clients.items():
        try:
            lone_ledger_in(client, namespace)
        except zbk.NamespaceDeniedError:
            continue
        found.add(name)

    assert found == allowed
    with pytest.raises(zbk.NoSuchNamespaceError):
        lone_ledger_in(clients["alice"], "nowhere")


def lone_ledger_in(client: zbk.Client, namespace: str) -> int:
    return client.reserve_ledger(
        ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, namespace=namespace
    )


def test_a_full_namespace_takes_no_ledger_until_one_is_deleted(
    cluster: LocalCluster, clients: dict[str, zbk.Client]
) -> None:
    store = open_store(cluster.metadata_uri)
    try:
        UsageStore(store).set_limits("sales", 2, 0)
    finally:
        store.close()
    alice = clients["alice"]
    first = lone_ledger_in(alice, "sales")
    lone_ledger_in(alice, "sales/eu")

    with pytest.raises(zbk.NamespaceFullError, match="zbk namespace limit sales"):
        lone_ledger_in(alice, "sales")
    alice.delete_ledger(first)
    lone_ledger_in(alice, "sales")


# ------------------------------------------------------------------ a stolen key


def test_a_stolen_key_that_may_read_reads_one_ledger_and_does_nothing_else(
    clients: dict[str, zbk.Client],
) -> None:
    alice, thief = clients["alice"], clients["may-read"]
    with lone_ledger(alice) as secret:
        secret.append(b"secret")
    shared = alice.create_ledger(
        ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, grants={"may-read": ["read"]}
    )
    shared.append(b"shared")
    reserved = alice.reserve_ledger(
        ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, grants={"may-read": ["read"]}
    )

    read = thief.open_ledger(shared.ledger_id).read_unconfirmed(0, 0)
    assert [bytes(one.payload) for one in read] == [b"shared"]
    with pytest.raises(zbk.AccessDeniedError):
        list(thief.open_ledger(secret.ledger_id).read(0, 0))
    for attempt in (
        lambda: thief.recover_ledger(shared.ledger_id),
        lambda: thief.open_for_append(reserved),
        lambda: thief.close_reserved_ledger(reserved),
        lambda: thief.delete_ledger(shared.ledger_id),
        lambda: thief.grant(shared.ledger_id, "may-read", ["append"]),
    ):
        with pytest.raises(zbk.AccessDeniedError):
            attempt()

    shared.append(b"more")  # it is not fenced, and its metadata are as they were
    assert shared.close() == 1
    alice.open_for_append(reserved).close()


# ------------------------------------------------------------------ changes


def test_a_grant_and_its_end_reach_the_bookies_within_a_second(
    clients: dict[str, zbk.Client],
) -> None:
    alice, mallory = clients["alice"], clients["mallory"]
    with lone_ledger(alice) as ledger:
        ledger.append(b"x")
    reader = mallory.open_ledger(ledger.ledger_id)

    def may_read() -> bool:
        try:
            list(reader.read(0, 0))
        except zbk.AccessDeniedError:
            return False
        return True

    assert not may_read()
    alice.grant(ledger.ledger_id, "mallory", ["read"])
    wait_until(may_read, timeout_s=1.0)
    alice.revoke(ledger.ledger_id, "mallory")
    wait_until(lambda: not may_read(), timeout_s=1.0)


def test_a_writer_that_loses_its_right_is_stopped(clients: dict[str, zbk.Client]) -> None:
    alice, writer = clients["alice"], clients["mallory"]
    reserved = alice.reserve_ledger(
        ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, grants={"mallory": ["append"]}
    )
    ledger = writer.open_for_append(reserved)
    ledger.append(b"one")

    alice.revoke(reserved, "mallory")

    with pytest.raises(zbk.AccessDeniedError, match=f"zbk ledger grant {reserved} mallory append"):
        wait_until(lambda: ledger.append(b"more") < 0, timeout_s=1.0)
    with alice.recover_ledger(reserved) as recovered:
        assert recovered.last_add_confirmed >= 0


def test_ledgers_without_an_owner_are_closed_by_a_record_of_the_default_namespace(
    cluster: LocalCluster, clients: dict[str, zbk.Client]
) -> None:
    ledger_id, bookie_id = plain_ledger(cluster), cluster.bookies[0].bookie_id

    def denied() -> set[str]:
        return {
            name
            for name, client in clients.items()
            if is_denied(client, bookie_id, "add", ledger_id)
        }

    assert denied() == set()
    change_namespaces(cluster, lambda now: (*now, Namespace(path="default")))
    try:
        wait_until(lambda: denied() == {*PRINCIPALS} - {"operator"}, timeout_s=2.0)
        with pytest.raises(zbk.NamespaceDeniedError, match="'default'"):
            lone_ledger(clients["alice"])
    finally:
        change_namespaces(cluster, lambda now: now[:-1])
