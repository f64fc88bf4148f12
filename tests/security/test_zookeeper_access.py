"""Access lists in a real ZooKeeper: members do their work, strangers do nothing."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

import zbk
from tests.support.cluster import QUICK, lone_ledger
from tests.support.ledgers import metadata_maker
from tests.support.waiting import wait_until
from tests.support.zookeeper_users import identity_of, make_access, paths_of, successes_of
from zbk.cluster.local import LocalCluster
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.config import MetadataAccess
from zbk.errors import InvalidOptionError, MetadataAccessError
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledger_closing import LedgerCloser, MissingReport
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.namespace_usage import UsageStore
from zbk.metadata.records.namespaces import NamespaceStore
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.node_rights import Members
from zbk.metadata.stores.store import Create
from zbk.metadata.stores.tree_access import check_tree, secure_tree
from zbk.metadata.stores.zookeeper import ZooKeeperStore
from zbk.protocol.ledger.access import LedgerAccess
from zbk.protocol.ledger.changes import close_by_writer
from zbk.security.namespaces import Namespace, with_namespace

NOBODY = MetadataAccess()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


class World:
    """A tree, its users, and their stores."""

    def __init__(self, server: LocalZooKeeper, folder: Path, exit_stack: ExitStack) -> None:
        self.root = f"/test-{uuid4().hex}/zbk"
        self.uri = server.uri(self.root)
        self.port = server.port
        self._exit = exit_stack
        self.users = {
            name: make_access(folder, name)
            for name in ("operator", "bookie", "client", "writer", "auditor")
        }

    @property
    def members(self) -> Members:
        one = {name: (identity_of(access),) for name, access in self.users.items()}
        return Members(
            operators=one["operator"],
            bookies=one["bookie"],
            clients=one["client"],
            writers=one["writer"],
            auditors=one["auditor"],
        )

    def open(self, name: str = "") -> ZooKeeperStore:
        access = self.users[name] if name else NOBODY
        store = ZooKeeperStore(self.uri, access=access)
        self._exit.callback(store.close)
        return store

    def stranger(self, name: str = "", password: str = "") -> KazooClient:
        auth = [("digest", f"{name}:{password}")] if name else None
        client = KazooClient(f"127.0.0.1:{self.port}", auth_data=auth)
        client.start()
        self._exit.callback(client.close)
        self._exit.callback(client.stop)
        return client


@pytest.fixture
def world(server: LocalZooKeeper, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as exit_stack:
        yield World(server, tmp_path, exit_stack)


def test_a_tree_that_a_user_makes_is_closed_to_strangers(world: World) -> None:
    store = world.open("operator")
    initialise(store)
    store.multi([Create("/ledgers/00"), Create("/ledgers/00/L1", b"x")])
    store.create("/available/b1", b"here", is_ephemeral=True)
    known = paths_of(world.stranger("operator", "secret of operator"), world.root)

    assert len(known) == 19
    assert successes_of(world.stranger(), known) == []
    assert successes_of(world.stranger("operator", "guess"), known) == []
    with pytest.raises(MetadataAccessError, match="this process has no user"):
        world.open()


def test_without_users_a_tree_is_as_ever(world: World) -> None:
    initialise(world.open())

    assert world.open().members is None
    assert world.open("operator").children("/ledgers") == []
    world.stranger().set(f"{world.root}/ledgers", b"theirs")


def test_a_writer_deletes_nothing_and_bookies_keep_what_it_may_not_delete(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = world.open("operator")
    initialise(operator)
    secure_tree(operator, world.members)
    bookie = world.users["bookie"]
    monkeypatch.setenv("ZBK_METADATA_USER", bookie.user)  # of the bookie's process
    monkeypatch.setenv("ZBK_METADATA_PASSWORD_FILE", bookie.password_file)
    with (
        LocalCluster(
            tmp_path / "data", metadata=world.uri, bookie_count=1, bookie_options=QUICK
        ) as cluster,
        connected(world, "writer") as writer,
        connected(world, "client") as client,
    ):
        with lone_ledger(writer) as ledger:
            ledger.append(b"kept")
        with pytest.raises(MetadataAccessError):
            writer.delete_ledger(ledger.ledger_id)
        writer.collect_garbage(cluster.bookies[0].bookie_id)
        with writer.open_ledger(ledger.ledger_id) as reader:
            assert [one.payload for one in reader.read(0, 0)] == [b"kept"]

        client.delete_ledger(ledger.ledger_id)
        assert ledger.ledger_id not in set(client.list_ledgers())


def connected(world: World, name: str) -> zbk.Client:
    access = world.users[name]
    return zbk.connect(
        world.uri, metadata_user=access.user, metadata_password_file=access.password_file
    )


def test_each_role_has_what_it_needs_and_no_more(world: World) -> None:
    operator = world.open("operator")
    initialise(operator)
    secure_tree(operator, world.members)
    operator.create("/principals", b"who")
    operator.create("/namespaces", b"grants")
    client, bookie, auditor = (world.open(name) for name in ("client", "bookie", "auditor"))

    initialise(client)
    bookie.create("/cookies/b1", b"c")
    bookie.create("/available/b1", b"r", is_ephemeral=True)
    client.create("/ledgers/00/0000/L0001", b"l", make_parents=True)
    client.create("/logs/name", b"l")
    bookie.set("/ledgers/00/0000/L0001", b"repaired", 0)
    bookie.create("/underreplication/ledgers/00/0000/L0001", b"t", make_parents=True)
    assert client.get("/available/b1").value == auditor.get("/available/b1").value == b"r"
    # a client has to know the name of its principal, and tells bookies of changed grants
    assert bookie.get("/principals").value == client.get("/principals").value == b"who"
    client.set("/grants", b"changes", 0)
    assert bookie.get("/grants").value == b"changes"
    for denied in (  # what deletes a ledger, changes its grants, or those of a namespace
        lambda: auditor.delete("/ledgers/00/0000/L0001"),
        lambda: auditor.set("/ledgers/00/0000/L0001", b"my grants", 1),
        lambda: auditor.set("/grants", b"changes", 1),
        lambda: bookie.delete("/ledgers/00/0000/L0001"),
        lambda: bookie.set("/grants", b"changes", 1),
        lambda: client.set("/namespaces", b"my grants", 0),
        lambda: client.delete("/namespaces"),
        lambda: bookie.set("/namespaces", b"my grants", 0),
    ):
        with pytest.raises(MetadataAccessError):
            denied()
    client.delete("/ledgers/00/0000/L0001")

    for refused in (
        lambda: client.set("/principals", b"me", 0),
        lambda: client.set("/available/b1", b"", 0),
        lambda: client.create("/available/b2"),
        lambda: client.children("/cookies"),
        lambda: client.create("/mine"),
        lambda: client.delete("/principals"),
        lambda: bookie.set("/principals", b"me", 0),
        lambda: bookie.get("/logs/name"),
        lambda: bookie.create("/ledgers/L2"),
        lambda: auditor.set("/ledgers", b"", 0),
        lambda: auditor.create("/logs/other"),
    ):
        with pytest.raises(MetadataAccessError):
            refused()


@pytest.mark.parametrize("role", ["client", "writer"])
@pytest.mark.parametrize("has_folder", [False, True])
def test_a_client_that_closes_a_ledger_reports_what_it_lacks(
    world: World, role: str, has_folder: bool
) -> None:
    operator = world.open("operator")
    initialise(operator)
    secure_tree(operator, world.members)
    store, at_work = world.open(role), UnderreplicationStore(world.open("bookie"))
    ledgers = LedgerStore(store)
    made, _version = ledgers.create(metadata_maker())
    if has_folder:
        at_work.report(made.ledger_id + 1, ["b1"], MissingReason.LOST)

    LedgerCloser(ledgers, UnderreplicationStore(store)).close(
        made.ledger_id, lambda now: close_by_writer(now, 9, 90), MissingReport.unchecked
    )

    found = at_work.read(made.ledger_id)
    assert found is not None
    assert found[0].missing.keys() == {"b1", "b2", "b3"}
    assert at_work.lock(made.ledger_id, "worker")
    assert at_work.finish(made.ledger_id, found[1])


def test_autorecovery_closes_ledgers_of_a_namespace_with_limits(world: World) -> None:
    operator = world.open("operator")
    initialise(operator)
    secure_tree(operator, world.members)
    NamespaceStore(operator).change(lambda now: with_namespace(now, Namespace(path="orders")))
    usage = UsageStore(operator)
    usage.set_limits("orders", 10, 1_000)
    make, access = metadata_maker(), LedgerAccess(owner="alice", namespace="orders")
    made, _version = LedgerStore(world.open("client")).create(lambda one: make(one).owned(access))

    LedgerStore(world.open("bookie")).update(made.ledger_id, lambda now: now.with_closed(9, 90))

    counted = usage.read("orders")
    assert counted is not None
    assert (counted.ledger_count, counted.size) == (1, 90)


def test_an_open_tree_is_converted_once_and_open_stores_follow(world: World) -> None:
    plain = world.open()
    initialise(plain)
    plain.create("/ledgers/00/0000/L0001", b"l", make_parents=True)
    bookie = world.open("bookie")  # has its user before the conversion
    bookie.create("/available/b1", b"r", is_ephemeral=True)
    operator = world.open("operator")

    would = {one.kind: one.changed_count for one in check_tree(operator, world.members)}
    done = {one.kind: one.changed_count for one in secure_tree(operator, world.members)}
    again = secure_tree(operator, world.members)

    assert would["ledgers"] == 4
    assert would | {"members": 0} == done
    assert [one.changed_count for one in again] == [0] * len(again)
    wait_until(lambda: bookie.members == world.members)
    bookie.create("/cookies/b1", b"c")
    known = paths_of(world.stranger("operator", "secret of operator"), world.root)
    # the node above the root was there before, and is not the tree's
    above = f"delete {world.root}: NotEmptyError()"
    assert successes_of(world.stranger(), known) == [above]
    with pytest.raises(MetadataAccessError):
        plain.children("/ledgers")


class InterruptedConversionError(Exception):
    """The conversion ends here."""


class Breaking:
    """A tree whose conversion ends after some changes."""

    def __init__(self, store: ZooKeeperStore, change_count: int) -> None:
        self._store = store
        self._left = change_count

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def change_grants(self, path: str, grants: object) -> None:
        self._left -= 1
        if self._left < 0:
            raise InterruptedConversionError
        self._store.change_grants(path, grants)  # type: ignore[arg-type] # passed on


@pytest.mark.parametrize("change_count", [0, 1, 5])
def test_a_conversion_that_breaks_off_leaves_a_tree_that_works(
    world: World, change_count: int
) -> None:
    initialise(world.open())
    operator = world.open("operator")

    with pytest.raises(InterruptedConversionError):
        secure_tree(Breaking(operator, change_count), world.members)  # type: ignore[arg-type] # forwards

    client, bookie = world.open("client"), world.open("bookie")
    client.create("/ledgers/L1", b"l")
    bookie.create("/available/b1", b"r", is_ephemeral=True)
    secure_tree(operator, world.members)
    assert not any(one.open_count for one in check_tree(operator, world.members))


def test_an_operator_cannot_lock_itself_out(world: World) -> None:
    operator = world.open("operator")
    initialise(operator)

    with pytest.raises(InvalidOptionError, match="must stay one"):
        secure_tree(operator, Members(operators=world.members.bookies))


def test_a_watch_returns_with_the_right_to_read(world: World) -> None:
    operator = world.open("operator")
    initialise(operator)
    secure_tree(operator, world.members)
    operator.create("/principals", b"1")
    seen: list[bytes] = []
    world.open("bookie").watch_node(
        "/principals", lambda node: seen.append(node.value if node else b"")
    )
    wait_until(lambda: seen[-1:] == [b"1"])

    secure_tree(operator, Members(operators=world.members.operators))
    operator.set("/principals", b"2", 0)
    secure_tree(operator, world.members)
    operator.set("/principals", b"3", 1)

    wait_until(lambda: seen[-1] == b"3")


def test_a_watch_that_was_refused_from_the_start_begins_with_the_right(world: World) -> None:
    operator = world.open("operator")
    initialise(operator)
    secure_tree(operator, Members(operators=world.members.operators, clients=world.members.clients))
    operator.create("/cookies/b1", b"1")
    seen: list[bytes] = []
    client = world.open("client")
    client.watch_node("/cookies/b1", lambda node: seen.append(node.value if node else b""))
    with pytest.raises(MetadataAccessError):
        client.get("/cookies/b1")
    assert seen == []

    both = Members(
        operators=world.members.operators,
        clients=world.members.clients,
        auditors=world.members.clients,
    )
    secure_tree(operator, both)

    wait_until(lambda: seen == [b"1"])
