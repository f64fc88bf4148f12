"""The first nodes of a cluster: made once, by the first client.

``LAYOUT``, ``INSTANCEID``, the id counter and the parents of all else are made in one ``multi``:
there is a whole cluster or none, and of two who race one makes it and both find it.

Any thread; everything blocks.
"""

from typing import Final
from uuid import uuid4

from zbk.errors import (
    InvalidOptionError,
    MetadataConflictError,
    MetadataUnavailableError,
    NoNodeError,
)
from zbk.metadata.paths import (
    AUDITOR_ELECTION,
    AVAILABLE,
    COOKIES,
    IDGEN,
    INSTANCEID,
    LAYOUT,
    LEDGERS,
    READONLY,
    UNDERREPLICATED_LEDGERS,
    UNDERREPLICATION,
    UNDERREPLICATION_LOCKS,
)
from zbk.metadata.records.compare_and_swap import find_node
from zbk.metadata.stores.store import Create, MetadataStore
from zbk.metadata.values import IdCounter, Instance, Layout, decode, encode

INITIALISE_ATTEMPT_COUNT_MAX: Final = 3

_PARENTS = (
    COOKIES,
    AVAILABLE,
    READONLY,
    LEDGERS,
    UNDERREPLICATION,
    UNDERREPLICATED_LEDGERS,
    UNDERREPLICATION_LOCKS,
    AUDITOR_ELECTION,
)


def initialise(store: MetadataStore, layout: Layout | None = None) -> str:
    """Make the cluster unless it is there; return its instance id.

    ``layout`` ``None``: as it is, hierarchical if it is new.

    Raises:
        InvalidOptionError: the cluster has another layout, or something else is in its place.
        MetadataUnavailableError: it may or may not have been made; asking again is safe.
    """
    _make(store, layout or Layout(), str(uuid4()))
    found = read_layout(store)
    if layout is not None and found.ledger_layout is not layout.ledger_layout:
        raise InvalidOptionError(
            "ledger layout",
            layout.ledger_layout,
            f"the cluster at {store.address} was made with {found.ledger_layout}",
        )
    return instance_id(store)


def initialise_new(store: MetadataStore, layout: Layout) -> str:
    """Make the cluster, which must not be there; return its instance id.

    Raises:
        InvalidOptionError: there is a cluster, or something else.
        MetadataUnavailableError: it may or may not have been made; asking again says which.
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
        *(Create(path) for path in _PARENTS),
    ]
    for attempt in range(INITIALISE_ATTEMPT_COUNT_MAX):
        try:
            store.multi(nodes)
        except MetadataConflictError as error:
            if find_node(store, LAYOUT) is None:
                raise InvalidOptionError(
                    "metadata", store.address, f"is neither empty nor zbk's ({error})"
                ) from error
        except MetadataUnavailableError:
            if find_node(store, LAYOUT) is None:
                if attempt + 1 == INITIALISE_ATTEMPT_COUNT_MAX:
                    raise
                continue
        break


def instance_id(store: MetadataStore) -> str:
    """Return the id that tells this cluster from every other one.

    Raises:
        InvalidOptionError: there is no cluster yet.
    """
    try:
        value = store.get(INSTANCEID).value
    except NoNodeError as error:
        raise not_initialised(store) from error
    return decode(Instance, value, INSTANCEID).instance_id


def read_layout(store: MetadataStore) -> Layout:
    """Return the cluster's layout.

    Raises:
        InvalidOptionError: there is no cluster yet.
    """
    try:
        value = store.get(LAYOUT).value
    except NoNodeError as error:
        raise not_initialised(store) from error
    return decode(Layout, value, LAYOUT)


def not_initialised(store: MetadataStore) -> InvalidOptionError:
    """Return the error for a store that holds no cluster."""
    return InvalidOptionError(
        "metadata",
        store.address,
        "holds no cluster yet: `zbk up` makes one on this machine, `zbk bookie init` elsewhere",
    )
