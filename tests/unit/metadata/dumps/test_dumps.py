"""Dumps of a metadata tree: there and back, every cut, and what the check finds."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.hooked_store import HookedStore
from tests.support.ledgers import metadata_maker
from tests.support.made_ledgers import make_ledgers
from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.errors import CorruptRecordError, InvalidOptionError, UnsupportedVersionError
from zbk.metadata.dumps.dump_file import Dump, DumpedNode, write_dump
from zbk.metadata.dumps.export import nodes_of
from zbk.metadata.dumps.record_check import check_records
from zbk.metadata.dumps.restore import restore
from zbk.metadata.paths import IDGEN, INSTANCEID, cookie_path, ledger_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise, instance_id
from zbk.metadata.records.ledger_grants import LedgerGrants
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.logs import LogStore
from zbk.metadata.records.namespace_usage import UsageStore
from zbk.metadata.records.namespaces import NamespaceStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.arguments import VALUE_SIZE_MAX
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import Cookie, IdCounter, LedgerLayout, LogHead, decode, encode
from zbk.protocol.ledger.access import Right
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.repair.underreplicated import MissingReason
from zbk.security.namespaces import Namespace

LEDGER_COUNT = 300
LAST_LEDGER = ledger_path(LEDGER_COUNT - 1, LedgerLayout.HIERARCHICAL)


def make_bookies(store: MetadataStore) -> None:
    """Create a cluster with three bookies."""
    initialise(store)
    for bookie_id in ("b1", "b2", "b3"):
        make_bookie(store, bookie_id)


def make_bookie(store: MetadataStore, bookie_id: str) -> None:
    cookie = Cookie(
        bookie_id=bookie_id,
        instance_id=instance_id(store),
        journal_dirs=("/j",),
        ledger_dirs=("/l",),
        created_ms=1,
    )
    BookieRegistry(store).create_cookie(cookie)


@pytest.fixture
def store() -> Iterator[MetadataStore]:
    made = MemoryStore(MemoryTree())
    make_bookies(made)
    make_ledgers(made, range(LEDGER_COUNT))
    made.set(IDGEN, encode(IdCounter(next_ledger_id=LEDGER_COUNT)), made.get(IDGEN).version)
    log = LogMetadata(name="events", log_id="x", created_ms=1, ledger_ids=(3, 7))
    made.create("/logs/events", encode(LogHead(log_id="x")), make_parents=True)
    made.create("/logs/events/x", encode(log))
    namespace = Namespace(path="orders/eu", grants={"*": (Right.READ,)})
    NamespaceStore(made).change(lambda _none: (namespace,))
    UsageStore(made).set_limits("orders/eu", 9, 0)
    LedgerGrants(made).change(5, lambda _none: {"bob": (Right.APPEND,)})
    UnderreplicationStore(made).report(5, ["b1"], MissingReason.NOT_WRITTEN)
    made.create("/available/b1", b"a registration", is_ephemeral=True)
    yield made
    made.close()


@pytest.fixture
def file(store: MetadataStore, tmp_path: Path) -> Path:
    path = tmp_path / "dump"
    with path.open("wb") as out:
        write_dump(out, nodes_of(store), address=store.address, exported_ms=1)
    return path


def test_a_restored_store_has_the_same_lasting_records(store: MetadataStore, file: Path) -> None:
    dump = Dump(file)
    empty = MemoryStore(MemoryTree())
    assert restore(empty, dump) == dump.node_count > LEDGER_COUNT
    assert instance_id(empty) == instance_id(store)
    before = {one.path: one.value for one in nodes_of(store)}
    assert {one.path: one.value for one in nodes_of(empty)} == before
    assert "/available/b1" not in before
    assert check_records(nodes_of(empty)) == []
    with pytest.raises(InvalidOptionError, match="is not empty"):
        restore(empty, dump)
    empty.close()


def test_an_interrupted_restore_is_no_cluster(file: Path) -> None:
    class Cut(MemoryStore):
        def multi(self, operations: object) -> None:
            if any(one.path == INSTANCEID for one in operations):  # type: ignore[attr-defined]
                raise InterruptedError
            super().multi(operations)  # type: ignore[arg-type]

    cut = Cut(MemoryTree())
    with pytest.raises(InterruptedError):
        restore(cut, Dump(file))
    with pytest.raises(InvalidOptionError, match="no cluster"):
        instance_id(cut)
    with pytest.raises(InvalidOptionError, match="is not empty"):
        restore(cut, Dump(file))
    cut.close()


def test_a_cut_or_changed_dump_restores_nothing(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    other = tmp_path / "other"
    spoilt = [b"", b"\n", b"[]\n", b"\xff" * 1_000, whole + b"\n", whole + whole]
    spoilt += [b"".join(lines[:count]) for count in (1, 2, len(lines) - 1)]
    spoilt += [whole[:size] for size in range(0, len(whole), len(whole) // 50)]
    spoilt += [b"".join([*lines[:9], *lines[10:]]), b"".join([*lines[:9], lines[8], *lines[9:]])]
    step = len(whole) // 60
    for place in range(1, len(whole) - 1, step):
        flipped = whole[place] ^ 1
        spoilt.append(whole[:place] + bytes([flipped]) + whole[place + 1 :])
    for text in spoilt:
        other.write_bytes(text)
        with pytest.raises((CorruptRecordError, UnsupportedVersionError)):
            Dump(other)


@pytest.mark.parametrize(
    "node",
    [
        {"path": "/a/../b"},
        {"path": "a"},
        {"path": "/nowhere/a"},
        {"path": 7},
        {"value": "*"},
        {"value": None},
        {"value": base64.b64encode(bytes(1_000_001)).decode()},
        {"version": "x"},
    ],
)
def test_a_dump_with_a_right_checksum_is_checked_too(node: object, tmp_path: Path) -> None:
    assert isinstance(node, dict)
    lines = [{"zbk_metadata_dump": 1}, {"path": "/a", "version": 0, "value": ""} | node]
    text = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
    end = {"node_count": 1, "sha256": hashlib.sha256(text).hexdigest()}
    path = tmp_path / "dump"
    path.write_bytes(text + json.dumps(end).encode() + b"\n")
    with pytest.raises(CorruptRecordError):
        Dump(path)


def test_a_newer_dump_and_a_folder_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_bytes(b'{"zbk_metadata_dump": 2}\n')
    with pytest.raises(UnsupportedVersionError, match="format 2"):
        Dump(path)
    with pytest.raises(InvalidOptionError, match="no regular file"):
        Dump(tmp_path)


def test_a_dump_of_no_cluster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    with path.open("wb") as out:
        write_dump(out, [DumpedNode("/a", b"")], address="", exported_ms=1)
    empty = MemoryStore(MemoryTree())
    with pytest.raises(InvalidOptionError, match="holds no cluster"):
        restore(empty, Dump(path))
    assert empty.children("/") == []
    empty.close()


def _set(path: str, value: bytes) -> Callable[[MetadataStore], object]:
    return lambda store: store.set(path, value, store.get(path).version)


DAMAGE: list[tuple[Callable[[MetadataStore], object], str, str]] = [
    (lambda _store: None, "", ""),
    (_set(LAST_LEDGER, b"damage"), LAST_LEDGER, ""),
    (_set("/namespaces", b"damage"), "/namespaces", ""),
    (_set("/namespaces/orders:eu", b"damage"), "/namespaces/orders:eu", ""),
    (_set("/grants", b"damage"), "/grants", ""),
    (_set(LAST_LEDGER, encode(metadata_maker()(4))), LAST_LEDGER, "belongs elsewhere"),
    (_set(IDGEN, encode(IdCounter(next_ledger_id=299))), LAST_LEDGER, "gives this id away again"),
    (lambda store: store.delete("/logs/events/x"), "/logs/events", "does not exist"),
    (lambda store: store.delete(ledger_path(7, LedgerLayout.HIERARCHICAL)), "/logs/events/x", "7"),
    (lambda store: store.delete(IDGEN), IDGEN, "is missing"),
    (lambda store: store.create("/other"), "/other", "no record of zbk"),
    (lambda store: store.create("/logs/events/x/y"), "/logs/events/x/y", "no record of zbk"),
    (lambda store: store.create("/ledgers/junk"), "/ledgers/junk", "not a ledger"),
]


@pytest.mark.parametrize(("change", "path", "problem"), DAMAGE)
def test_the_check_finds_what_is_wrong(
    store: MetadataStore, change: Callable[[MetadataStore], object], path: str, problem: str
) -> None:
    change(store)
    found = check_records(nodes_of(store))
    assert [one.path for one in found] == ([path] if path else [])
    assert all(problem in one.problem for one in found)


def test_a_record_of_the_largest_size_is_restored(store: MetadataStore, tmp_path: Path) -> None:
    """One step of several changes takes less than a single change."""
    largest = bytes(VALUE_SIZE_MAX)
    store.create("/logs/large", largest)
    path = tmp_path / "dump"
    with path.open("wb") as out:
        write_dump(out, nodes_of(store), address=store.address, exported_ms=1)
    empty = MemoryStore(MemoryTree())

    restore(empty, Dump(path))

    assert empty.get("/logs/large").value == largest


@pytest.mark.parametrize(
    ("operation", "path_part", "is_listed"),
    [
        ("children", "/cookies", True),  # before the ledgers are listed
        ("children", "/ledgers/00/0000", True),
        ("get", "/ledgers/00/0000/L0001", False),  # after that
    ],
)
def test_a_ledger_created_during_an_export_is_in_the_dump_or_unknown_to_its_counter(
    operation: str, path_part: str, is_listed: bool
) -> None:
    """Bookies drop what is below the counter and has no record."""
    tree = MemoryTree()
    hooked, ledgers = HookedStore(tree), LedgerStore(MemoryStore(tree))
    initialise(hooked)
    for _ in range(2):
        ledgers.create(metadata_maker())
    ledgers.create(metadata_maker())
    ledgers.delete(2)  # never to be assigned again
    has_come = hooked.interrupt(lambda: ledgers.create(metadata_maker()), operation, path_part)

    found = {one.path: one.value for one in nodes_of(hooked)}

    assert has_come()
    assert (ledger_path(3, LedgerLayout.HIERARCHICAL) in found) is is_listed
    counter = decode(IdCounter, found[IDGEN], IDGEN)
    assert counter.next_ledger_id == (4 if is_listed else 3)
    assert list(found)[-1] == IDGEN


def test_a_cluster_that_is_emptied_during_an_export_is_not_empty_in_the_dump() -> None:
    tree = MemoryTree()
    hooked, ledgers = HookedStore(tree), LedgerStore(MemoryStore(tree))
    initialise(hooked)
    ledgers.create(metadata_maker())
    hooked.interrupt(lambda: ledgers.delete(0), "children", "/ledgers/00/0000/L0000")

    found = {one.path: one.value for one in nodes_of(hooked)}

    assert ledgers.counter().is_emptied is True
    assert ledger_path(0, LedgerLayout.HIERARCHICAL) in found
    assert not decode(IdCounter, found[IDGEN], IDGEN).is_emptied


def test_a_log_that_rolls_during_an_export_names_ledgers_of_the_dump() -> None:
    """No owner opens a log whose last ledger does not exist."""
    for skip_count in range(100):  # before each of the reads
        tree = MemoryTree()
        hooked, owner = HookedStore(tree), MemoryStore(tree)
        make_bookies(hooked)
        ledgers, logs = LedgerStore(owner), LogStore(owner)
        logs.create("events", 1)

        def roll(ledgers: LedgerStore = ledgers, logs: LogStore = logs) -> None:
            made, _version = ledgers.create(metadata_maker())
            logs.update("events", lambda now: now.with_ledger(made.ledger_id))

        roll()
        has_come = hooked.interrupt(roll, skip_count=skip_count)
        found = {one.path: one for one in nodes_of(hooked)}
        hooked.heal()

        problems = check_records(found.values())
        assert problems == []
        if not has_come():
            assert skip_count > 10
            return
    pytest.fail("an export of two ledgers has over 100 reads")


def test_a_bookie_that_joins_during_an_export_is_in_the_dump_if_its_ledger_is() -> None:
    """A bookie without a cookie does not start in a restored cluster."""
    for skip_count in range(100):  # before each of the reads
        tree = MemoryTree()
        hooked, owner = HookedStore(tree), MemoryStore(tree)
        make_bookies(hooked)

        def join(owner: MetadataStore = owner) -> None:
            make_bookie(owner, "b4")
            LedgerStore(owner).create(metadata_maker(bookies=("b1", "b2", "b4")))

        has_come = hooked.interrupt(join, skip_count=skip_count)
        nodes = list(nodes_of(hooked))
        hooked.heal()

        assert check_records(nodes) == []
        assert len({one.path for one in nodes}) == len(nodes)
        if not has_come():
            assert skip_count > 10
            return
    pytest.fail("an export of a ledger has over 100 reads")


def test_the_check_names_every_ledger_of_a_bookie_without_a_cookie(store: MetadataStore) -> None:
    store.delete(cookie_path("b2"))
    found = check_records(nodes_of(store))
    assert len(found) == LEDGER_COUNT
    assert {one.problem for one in found} == {"names bookies that have no cookie: b2"}
