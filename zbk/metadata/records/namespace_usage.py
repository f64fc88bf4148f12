"""What the ledgers of a namespace use of its limits: one record for each namespace with limits.

A record counts the ledgers with its path, or a path below it, that were created after it, and the
bytes of those that are closed. The step of the store that creates, closes or deletes a ledger
changes the counts, too, so they are exact whatever clients and replies are lost; only a client
without a key does not count what it deletes. A creation is refused while a count is at its limit; a
ledger that is open may take the bytes above it.

The limits cost other namespaces nothing, and the default one has none: its ledgers are not looked
at. Clients that close ledgers of one such namespace at the same time retry, as those that create.

Any thread; every method blocks.
"""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import msgspec

from zbk.errors import InvalidOptionError, NamespaceFullError, NoSuchNamespaceError
from zbk.metadata.paths import IDGEN, NAMESPACES
from zbk.metadata.records.compare_and_swap import CompareAndSwap, find_node
from zbk.metadata.stores.store import Check, Create, Delete, MetadataStore, Operation, SetValue
from zbk.metadata.values import IdCounter, NamespaceUsage, decode, encode
from zbk.protocol.ledger.access import DEFAULT_NAMESPACE
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.security.namespaces import parts_of

_SEPARATOR: Final = ":"  # no namespace has it in its path


def usage_path(namespace: str) -> str:
    """Return the path of the record of a namespace.

    >>> usage_path("orders/eu")
    '/namespaces/orders:eu'
    """
    return f"{NAMESPACES}/{namespace.replace('/', _SEPARATOR)}"


class UsageStore:
    """The records in ``store``."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._swap = CompareAndSwap(store)

    def read(self, namespace: str) -> NamespaceUsage | None:
        """Return the record of a namespace; ``None``: it has no limits.

        Raises:
            CorruptRecordError: the record is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        path = usage_path(namespace)
        node = find_node(self._store, path, is_fresh=True)
        return None if node is None else decode(NamespaceUsage, node.value, path)

    def set_limits(self, namespace: str, ledger_count_max: int, size_max: int) -> NamespaceUsage:
        """Set the limits of a namespace, 0 for none; ledgers from now on are counted.

        Raises:
            InvalidOptionError: as ``check_limits``.
            NoSuchNamespaceError: the cluster has no namespaces.
            MetadataUnavailableError: they may or may not be set.
        """
        check_limits(namespace, ledger_count_max, size_max)
        if find_node(self._store, NAMESPACES, is_fresh=True) is None:
            raise NoSuchNamespaceError(namespace)
        path = usage_path(namespace)

        def limited(usage: NamespaceUsage) -> NamespaceUsage:
            return msgspec.structs.replace(
                usage, ledger_count_max=ledger_count_max, size_max=size_max
            )

        def attempt() -> NamespaceUsage | None:
            node = find_node(self._store, path, is_fresh=True)
            if node is not None:
                before = decode(NamespaceUsage, node.value, path)
                value = encode(limited(before), write_token=uuid4().hex)
                steps: list[Operation] = [SetValue(path, value, node.version)]
            else:
                counter = self._store.get(IDGEN, is_fresh=True)
                first = decode(IdCounter, counter.value, IDGEN).next_ledger_id
                before = NamespaceUsage(first_ledger_id=first)
                value = encode(limited(before), write_token=uuid4().hex)
                # no ledger is created between the look at the counter and the first count
                steps = [Check(IDGEN, counter.version), Create(path, value)]
            is_made = self._swap.put(path, value, steps)
            return limited(before) if is_made else None

        return self._swap.until_done(path, attempt)

    def remove(self, namespace: str) -> None:
        """Remove the limits of a namespace, and its counts."""
        path = usage_path(namespace)
        self._swap.remove(path, [Delete(path)])

    def created(self, made: Sequence[LedgerMetadata]) -> list[SetValue]:
        """Return the changes beside the creation of ledgers, which have one namespace.

        Raises:
            NamespaceFullError: a limit is reached.
            CorruptRecordError: a record is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        first = made[0]
        return self._changes(first, count=len(made))

    def closed(self, closed: LedgerMetadata) -> list[SetValue]:
        """Return the changes beside the end of a ledger. Raises as ``created``, but is not full."""
        return self._changes(closed, size=closed.length or 0)

    def deleted(self, gone: LedgerMetadata) -> list[SetValue]:
        """Return the changes beside the deletion of a ledger. Raises as ``closed``."""
        return self._changes(gone, count=-1, size=-(gone.length or 0))

    def _changes(self, ledger: LedgerMetadata, *, count: int = 0, size: int = 0) -> list[SetValue]:
        namespace = ledger.known_access.namespace
        changes: list[SetValue] = []
        for part in () if namespace == DEFAULT_NAMESPACE else parts_of(namespace):
            path = usage_path(part)
            node = find_node(self._store, path)
            if node is None:
                continue
            usage = decode(NamespaceUsage, node.value, path)
            if ledger.ledger_id < usage.first_ledger_id:
                continue  # it was there before the limits
            if count > 0:
                _check_room(part, usage, count)
            after = msgspec.structs.replace(
                usage, ledger_count=usage.ledger_count + count, size=usage.size + size
            )
            changes.append(SetValue(path, encode(after), node.version))
        return changes


def check_limits(namespace: str, ledger_count_max: int, size_max: int) -> None:
    """Check that a namespace can have limits.

    Raises:
        InvalidOptionError: it is the default one, or a limit is negative.
    """
    if namespace == DEFAULT_NAMESPACE and (ledger_count_max or size_max):
        raise InvalidOptionError("namespace", namespace, "it has no limits")
    if min(ledger_count_max, size_max) < 0:
        raise InvalidOptionError("limit", min(ledger_count_max, size_max), "no limit is negative")


def _check_room(namespace: str, usage: NamespaceUsage, count: int) -> None:
    if usage.ledger_count_max and usage.ledger_count + count > usage.ledger_count_max:
        raise NamespaceFullError(namespace, "ledgers", usage.ledger_count_max)
    if usage.size_max and usage.size >= usage.size_max:
        raise NamespaceFullError(namespace, "bytes", usage.size_max)
