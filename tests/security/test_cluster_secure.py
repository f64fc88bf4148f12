"""A cluster whose processes have users of ZooKeeper, and the commands that close it."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kazoo.client import KazooClient

import zbk
from tests.support.cluster import QUICK, Shell
from tests.support.waiting import wait_until
from tests.support.zookeeper_users import identity_of, make_access, paths_of, successes_of
from zbk.cluster.local import LocalCluster
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.config import MetadataAccess
from zbk.metadata.paths import AUDITOR_LEADER
from zbk.metadata.records.compare_and_swap import find_node
from zbk.metadata.stores.access import use_config_file
from zbk.metadata.stores.connect import open_store

ROOT = "/test/zbk"
ROLES = ("operator", "bookie", "client")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def users(folder: Path) -> dict[str, MetadataAccess]:
    """The users of three roles, each with a configuration file."""
    made = {name: make_access(folder, name) for name in ROLES}
    for name, access in made.items():
        (folder / f"{name}.toml").write_text(
            f'[security]\nmetadata_user = "{name}"\n'
            f'metadata_password_file = "{access.password_file}"\n'
        )
    return made


@pytest.fixture(scope="module")
def shell(folder: Path) -> Shell:
    return Shell(folder, {"ZBK_CONFIG": str(folder / "operator.toml")})


@pytest.fixture(scope="module")
def cluster(folder: Path, users: dict[str, MetadataAccess], shell: Shell) -> Iterator[LocalCluster]:
    """Four bookies with the user ``bookie``, in a tree with members of each role."""
    use_config_file(str(folder / "operator.toml"))  # of this process, which makes the cookies
    with LocalZooKeeper(folder / "zookeeper") as server:
        uri = server.uri(ROOT)
        shell.environment["ZBK_METADATA"] = uri
        shell.run("cluster", "init", "--metadata", uri)
        roles = [(f"--{name}", identity_of(users[name])) for name in ("bookie", "client")]
        shell.run("cluster", "secure", *(word for role in roles for word in role))
        with LocalCluster(
            folder / "data",
            bookie_count=4,  # one to take the place of another
            metadata=uri,
            bookie_options=QUICK,
            bookie_flags=("--config", str(folder / "bookie.toml")),
        ) as running:
            running.start_autorecovery(flags=("--config", str(folder / "bookie.toml")))
            yield running
    use_config_file("")


def connect(cluster: LocalCluster, user: MetadataAccess) -> zbk.Client:
    return zbk.connect(
        cluster.metadata_uri, metadata_user=user.user, metadata_password_file=user.password_file
    )


def test_each_process_works_with_a_user_of_its_own(
    cluster: LocalCluster, users: dict[str, MetadataAccess], shell: Shell
) -> None:
    with connect(cluster, users["client"]) as client:
        with client.create_ledger() as ledger:
            ledger.append_many([b"first", b"second"])
        reader = client.open_ledger(ledger.ledger_id)
        assert [entry.payload for entry in reader.read(0, 1)] == [b"first", b"second"]
        with client.create_ledger() as other:
            other.append(b"x")
        client.delete_ledger(other.ledger_id)
        with client.open_log("events", create=True) as log:
            log.append(b"x")
    with closing(open_store(cluster.metadata_uri)) as store:
        wait_until(lambda: find_node(store, AUDITOR_LEADER) is not None)
    assert shell.run("autorecovery", "whoisauditor").stdout.strip()
    assert shell.run("status").stdout
    log_text = (cluster.folder / "autorecovery.log").read_text()
    assert "refused" not in log_text
    assert "refused" not in (cluster.folder / "bookie0.log").read_text()


def test_a_ledger_of_a_dead_bookie_is_repaired_with_the_rights_of_a_bookie(
    cluster: LocalCluster, users: dict[str, MetadataAccess], shell: Shell
) -> None:
    with (
        connect(cluster, users["client"]) as client,
        client.create_ledger(ensemble_size=2, write_quorum_size=2, ack_quorum_size=2) as ledger,
    ):
        ledger.append(b"kept")
    lost = cluster.bookies[2]
    cluster.terminate(lost.index)
    try:
        shell.run("bookie", "recover", lost.bookie_id)
    finally:
        cluster.restart(lost.index)
    listed = shell.run("ledger", "show", str(ledger.ledger_id), "-o", "json").stdout
    assert lost.bookie_id not in listed.decode()


def test_a_stranger_gets_nothing_from_the_whole_tree(cluster: LocalCluster) -> None:
    server = cluster.metadata_uri.removeprefix("zk://").partition("/")[0]
    operator = KazooClient(server, auth_data=[("digest", "operator:secret of operator")])
    guesser = KazooClient(server, auth_data=[("digest", "operator:guess")])
    stranger = KazooClient(server)
    clients = (operator, guesser, stranger)
    try:
        for one in clients:
            one.start()
        known = [os.path.dirname(ROOT), *paths_of(operator, ROOT)]  # noqa: PTH120 - no file
        assert len(known) > 20
        # ZooKeeper's own root is not zbk's: everyone may delete what is in it, if that is empty
        full = "delete /test: NotEmptyError()"
        assert successes_of(stranger, known) == [full]
        assert successes_of(guesser, known) == [full]
    finally:
        for one in clients:
            one.stop()
            one.close()


def test_a_command_without_a_user_says_what_is_missing(cluster: LocalCluster, folder: Path) -> None:
    done = Shell(folder).run("ledger", "ls", "--metadata", cluster.metadata_uri, exit_code=3)

    assert b"metadata_password_file" in done.stderr


def test_nodes_of_later_versions_are_completed(
    cluster: LocalCluster, shell: Shell, users: dict[str, MetadataAccess]
) -> None:
    with closing(open_store(cluster.metadata_uri)) as store:
        store.delete("/grants")
        shell.run("cluster", "secure")
        with closing(open_store(cluster.metadata_uri, access=users["client"])) as client:
            found = client.get("/grants")
            client.set("/grants", found.value, found.version)


@pytest.mark.usefixtures("cluster")
def test_securing_again_changes_nothing_and_no_password_is_shown(
    shell: Shell, users: dict[str, MetadataAccess]
) -> None:
    dry = shell.run("cluster", "secure", "--dry-run", "-o", "json")
    rows = [json.loads(line) for line in dry.stdout.splitlines()]

    assert {row["kind"] for row in rows} >= {"root", "members", "cookie", "registration"}
    assert [row for row in rows if row["open"] or row["changed"]] == []
    assert b"dry run" in dry.stderr
    shown = shell.run("cluster", "identity").stdout
    assert identity_of(users["operator"]).encode() in shown
    assert b"secret" not in shown


def test_sqlite_has_no_access_lists(folder: Path, shell: Shell) -> None:
    shell.run("cluster", "init", "--metadata", f"sqlite://{folder}/m.db")

    done = shell.run("cluster", "secure", "--metadata", f"sqlite://{folder}/m.db", exit_code=1)

    assert b"only ZooKeeper has access lists" in done.stderr
