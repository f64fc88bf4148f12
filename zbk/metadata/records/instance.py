"""The first nodes of a cluster, which the first client creates.

One ``multi`` creates ``LAYOUT``, ``INSTANCEID``, the id counter and the parents of all other nodes.
So there is a whole cluster or none, and if two clients race, one creates it and both find it.

Any thread; every function blocks.
"""

from contextlib import suppress
from typing import Final
from uuid import uuid4

from zbk.errors import (
    InvalidOptionError,
    MetadataAccessError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from zbk.metadata.paths import (
    ACCESS_CHANGES,
    AUDITOR_ELECTION,
    AVAILABLE,
    COOKIES,
    DATA_SETS,
    IDGEN,
    INSTANCEID,
    LAYOUT,
    LEDGERS,
    LOGS,
    READONLY,
    UNDERREPLICATED_LEDGERS,
    UNDERREPLICATION,
    UNDERREPLICATION_LOCKS,
)
from zbk.metadata.records.compare_and_swap import find_node
from zbk.metadata.stores.store import Create, MetadataStore
from zbk.metadata.values import IdCounter, Instance, Layout, decode, encode
from zbk.security.access_table import AccessChanges

INITIALISE_ATTEMPT_COUNT_MAX: Final = 3

_PARENTS = (
    COOKIES,
    AVAILABLE,
    READONLY,
    LEDGERS,
    LOGS,
    DATA_SETS,
    UNDERREPLICATION,
    UNDERREPLICATED_LEDGERS,
    UNDERREPLICATION_LOCKS,
    AUDITOR_ELECTION,
)


def initialise(store: MetadataStore, layout: Layout | None = None) -> str:
    """Create the cluster if it does not exist; return its instance id.

    ``layout`` ``None``: any layout; a new cluster gets the hierarchical one.

    Raises:
        InvalidOptionError: the cluster has another layout, or the store holds other data.
        MetadataUnavailableError: it may or may not have been created; calling again is safe.
    """
    _make(store, layout or Layout(), str(uuid4()))
    found = read_layout(store)
    if layout is not None and found.ledger_layout is not layout.ledger_layout:
        raise InvalidOptionError(
            "ledger layout",
            layout.ledger_layout,
            f"the cluster at {store.address} was created with {found.ledger_layout}",
        )
    return instance_id(store)


def initialise_new(store: MetadataStore, layout: Layout) -> str:
    """Create the cluster, which must not exist; return its instance id.

    Raises:
        InvalidOptionError: there is a cluster, or other data.
        MetadataUnavailableError: it may or may not have been created; calling again tells.
    """
    mine = str(uuid4())
    _make(store, layout, mine)
    found = instance_id(store)
    if found != mine:
        raise InvalidOptionError(
            "metadata",
            store.address,
            f"holds cluster {found} already, with layout {read_layout(store).ledger_layout}: a "
            "layout cannot be changed; give an empty store, or another root",
        )
    return mine


def _make(store: MetadataStore, layout: Layout, instance: str) -> None:
    nodes = [
        Create(LAYOUT, encode(layout)),
        Create(INSTANCEID, encode(Instance(instance_id=instance))),
        Create(IDGEN, encode(IdCounter())),
        *_shared_nodes(),
    ]
    for attempt in range(INITIALISE_ATTEMPT_COUNT_MAX):
        try:
            store.multi(nodes)
        except MetadataConflictError as error:
            if find_node(store, LAYOUT) is None:
                raise InvalidOptionError(
                    "metadata", store.address, f"is neither empty nor zbk's ({error})"
                ) from error
        except MetadataAccessError:  # who may not create nodes here finds a cluster, or none
            if find_node(store, LAYOUT) is None:
                raise
        except MetadataUnavailableError:
            if find_node(store, LAYOUT) is None:
                if attempt + 1 == INITIALISE_ATTEMPT_COUNT_MAX:
                    raise
                continue
        break


def _shared_nodes() -> list[Create]:
    """Return the nodes below which, or in which, members of a cluster write."""
    return [
        Create(ACCESS_CHANGES, encode(AccessChanges())),
        *(Create(path) for path in _PARENTS),
    ]


def complete(store: MetadataStore) -> None:
    """Create the nodes that a cluster of an earlier version lacks.

    Its clients create them when they need them, which they may not in a closed ZooKeeper.

    Raises:
        InvalidOptionError: there is no cluster.
        MetadataUnavailableError: some may be missing; calling again is safe.
    """
    instance_id(store)
    for node in _shared_nodes():
        with suppress(NodeExistsError):
            store.create(node.path, node.value)


def instance_id(store: MetadataStore) -> str:
    """Return the id that identifies this cluster.

    Raises:
        InvalidOptionError: there is no cluster yet.
    """
    return decode(Instance, _initial_value(store, INSTANCEID), INSTANCEID).instance_id


def read_layout(store: MetadataStore) -> Layout:
    """Return the cluster's layout. Raises as ``instance_id``."""
    return decode(Layout, _initial_value(store, LAYOUT), LAYOUT)


def _initial_value(store: MetadataStore, path: str) -> bytes:
    try:
        return store.get(path).value
    except NoNodeError as error:
        raise not_initialised(store) from error


def not_initialised(store: MetadataStore) -> InvalidOptionError:
    """Return the error for a store that holds no cluster."""
    return InvalidOptionError(
        "metadata",
        store.address,
        "holds no cluster yet: `zbk up` makes one on this machine, `zbk bookie init` elsewhere",
    )
