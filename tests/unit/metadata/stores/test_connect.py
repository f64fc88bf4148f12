"""From addresses to stores, and what malformed ones are told."""

import subprocess
import sys
from pathlib import Path

import pytest

import zbk
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.errors import InvalidOptionError
from zbk.metadata.stores import zookeeper_connection
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.zookeeper_address import ZooKeeperAddress, parse_address, why_unreachable


@pytest.mark.parametrize(
    ("uri", "servers", "root"),
    [
        ("zk://h:1", (("h", 1),), "/zbk"),
        ("zk://h", (("h", 2181),), "/zbk"),
        ("zk://h:1/", (("h", 1),), "/zbk"),
        ("zk://h:1/prod/", (("h", 1),), "/prod"),
        ("zk://a:1,b,c:3/x/y", (("a", 1), ("b", 2181), ("c", 3)), "/x/y"),
        ("zk://a:1, b:2/x", (("a", 1), ("b", 2)), "/x"),
        ("zk://[::1]:2182/x", (("::1", 2182),), "/x"),
    ],
)
def test_a_zookeeper_address_names_servers_and_a_root(
    uri: str, servers: tuple[tuple[str, int], ...], root: str
) -> None:
    assert parse_address(uri) == ZooKeeperAddress(servers, root)


def test_hosts_are_written_as_kazoo_reads_them() -> None:
    assert parse_address("zk://a,[::1]:2/x").hosts == "a:2181,[::1]:2"


@pytest.mark.parametrize(
    "uri",
    [
        "zk://",
        "zk:///root",
        "zk://:2181/x",
        "zk://h:port/x",
        "zk://h:0/x",
        "zk://h:70000/x",
        "zk://a,,b/x",
        "zk://u@h/x",
        "zk://a b/x",
        "zk://h/x//y",
        "zk://h/../y",
        "zk://" + ",".join(f"h{n}" for n in range(17)),
    ],
)
def test_a_malformed_zookeeper_address_is_refused(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^metadata="):
        open_store(uri)


def test_an_interrupted_attempt_to_connect_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that goes on, as a notebook does, kept its threads, and they went on connecting."""

    def interrupted(*_arguments: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(zookeeper_connection, "why_unreachable", interrupted)
    threads = NewThreads()

    with pytest.raises(KeyboardInterrupt):
        open_store("zk://127.0.0.1:1/x", timeout_s=0.1)

    wait_until(lambda: threads.names() == [])


@pytest.mark.parametrize(
    "uri", ["", "x", "zk", "zk:h", "http://h/x", "/path/x.db", "memory://", "sqlite:x.db"]
)
def test_an_unknown_scheme_is_told_the_valid_forms(uri: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        open_store(uri)

    for form in ("zk://host:port", "sqlite:///absolute"):
        assert form in str(caught.value)


def test_the_product_has_no_store_in_memory() -> None:
    code = "import zbk.metadata.stores.connect as c; c.open_store('memory://x')"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    assert "InvalidOptionError" in done.stderr


@pytest.mark.parametrize("uri", ["sqlite://x.db", "sqlite:///", "sqlite:///tmp/"])
def test_a_sqlite_address_needs_an_absolute_file(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="sqlite:///absolute"):
        open_store(uri)


def test_a_sqlite_file_is_made_but_not_its_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="there is no folder"):
        open_store(f"sqlite://{tmp_path}/none/x.db")
    with pytest.raises(InvalidOptionError, match="is a folder"):
        open_store(f"sqlite://{tmp_path}")


def test_a_sqlite_file_is_for_its_owner_only(tmp_path: Path) -> None:
    store = open_store(f"sqlite://{tmp_path}/x.db")
    store.create("/a")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    store.close()

    assert modes == dict.fromkeys(["x.db", "x.db-shm", "x.db-wal"], 0o600)


def test_a_sqlite_file_that_must_exist_is_not_made(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/mistyped.db"

    for connect in (lambda: open_store(uri, must_exist=True), lambda: zbk.connect(uri)):
        with pytest.raises(InvalidOptionError, match=r"there is no file .*mistyped\.db"):
            connect()

    assert list(tmp_path.iterdir()) == []


def test_a_sqlite_address_may_be_percent_encoded(tmp_path: Path) -> None:
    open_store(f"sqlite://{tmp_path}/a%20b.db").close()

    assert (tmp_path / "a b.db").is_file()


def test_a_registered_scheme_is_opened_by_its_name() -> None:
    one, same, other = (open_store(f"memory://connect-{name}") for name in ("1", "1", "2"))
    one.create("/a")

    assert same.children("/") == ["a"]
    assert other.children("/") == []
    assert one.address == "memory://connect-1"
    for store in (one, same, other):
        store.close()


def test_whoever_uses_sqlite_never_loads_kazoo(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from zbk.metadata.stores.connect import open_store\n"
        f"open_store('sqlite://{tmp_path}/x.db').close()\n"
        "assert 'kazoo' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unreachable_server_is_named_with_the_reason() -> None:
    assert "127.0.0.1:1: Connection refused" in why_unreachable(
        parse_address("zk://127.0.0.1:1"), 5.0
    )
