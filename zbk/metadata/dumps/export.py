"""Reading all nodes of a store that outlive their sessions.

A cluster may go on meanwhile. Ids ascend, and the ledgers are read in their order, so those that
are created meanwhile are in the dump up to one of them. The counter of the dump is above this one,
and above every ledger of before, which may be deleted; it is not above any other. Bookies of a
restored cluster drop what is below the counter and has no record: so a ledger that the dump missed
is to them one that was created after it.

The cookies of bookies that join meanwhile are read after the ledgers, which may be theirs.

Logs and data sets are read before the ledgers. A ledger is created before its log names it, so a
log that rolls meanwhile names ledgers of the dump; no owner opens a log whose last ledger does not
exist. Otherwise two records that refer to each other may be read before and after a change, such as
a log and its first ledger, which was truncated; the check of the dump shows that.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from zbk.errors import CorruptRecordError, NoNodeError, UnsupportedVersionError
from zbk.metadata.dumps.dump_file import DumpedNode
from zbk.metadata.paths import (
    AUDITOR_ELECTION,
    AVAILABLE,
    COOKIES,
    IDGEN,
    LEDGERS,
    READONLY,
    READONLY_NAME,
    UNDERREPLICATION_LOCKS,
    ledger_id_of,
)
from zbk.metadata.records.compare_and_swap import find_children, find_node
from zbk.metadata.records.instance import instance_id
from zbk.metadata.stores.node_rights import ACCESS
from zbk.metadata.stores.store import MetadataStore, Node
from zbk.metadata.values import IdCounter, LedgerLayout, decode, encode

_EPHEMERAL_PARENTS = (AVAILABLE, READONLY, UNDERREPLICATION_LOCKS, AUDITOR_ELECTION)

_READ_LAST = (LEDGERS, IDGEN)
_LEFT_OUT = ("/zookeeper", ACCESS)  # about this ZooKeeper, not about the cluster


def nodes_of(store: MetadataStore) -> Iterator[DumpedNode]:
    """Yield all lasting nodes, parents first.

    Raises:
        InvalidOptionError: there is no cluster.
        MetadataUnavailableError: the store does not answer.
    """
    instance_id(store)
    before = find_node(store, IDGEN)
    last_id = -1
    paths = set()
    for one in _below(store, ""):
        paths.add(one.path)
        yield one
    for one in chain(_node(store, LEDGERS), _below(store, LEDGERS)):
        last_id = max(last_id, _ledger_id(one.path))
        yield one
    for one in chain(_node(store, COOKIES), _below(store, COOKIES)):
        if one.path not in paths:
            yield one
    after = find_node(store, IDGEN)
    if after is not None:
        yield DumpedNode(IDGEN, _counter_value(before or after, last_id, after), after.version)


def _ledger_id(path: str) -> int:
    """Return the id of the ledger whose record is at ``path``; -1 if it is no such record."""
    for layout in LedgerLayout:
        with suppress(CorruptRecordError):
            return ledger_id_of(path, layout)
    return -1


def _counter_value(before: Node, last_id: int, after: Node) -> bytes:
    """Return the value of the counter: as before the listing, and above the last listed ledger.

    A counter that is damaged, or too low after the listing, is returned as it is: the check of the
    records shows it.
    """
    try:
        first_id, end_id = (
            decode(IdCounter, one.value, IDGEN).next_ledger_id for one in (before, after)
        )
    except (CorruptRecordError, UnsupportedVersionError):
        return after.value
    if last_id < first_id:
        return before.value
    if last_id >= end_id:
        return after.value
    return encode(IdCounter(next_ledger_id=last_id + 1))


def _below(store: MetadataStore, parent: str) -> Iterator[DumpedNode]:
    for name in find_children(store, parent or "/"):
        path = f"{parent}/{name}"
        is_lasting = parent not in _EPHEMERAL_PARENTS or name == READONLY_NAME
        if path in _READ_LAST or path in _LEFT_OUT or not is_lasting:
            continue
        yield from _node(store, path)
        yield from _below(store, path)


def _node(store: MetadataStore, path: str) -> Iterator[DumpedNode]:
    try:
        found = store.get(path)
    except NoNodeError:  # removed since it was listed
        return
    yield DumpedNode(path, found.value, found.version)
