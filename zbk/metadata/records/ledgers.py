"""The ledgers' metadata in the store: ids, creation, changes, deletion, listing.

All changes are compare-and-swaps with read-back (``compare_and_swap``). After a lost reply:

* ``create`` takes the id from the counter and makes the ledger's node in one ``multi``, so an id is
  never assigned twice, not even after its ledger was deleted, and none is lost. The node belongs to
  this attempt exactly if it has the attempt's ``creation_token``.
* ``update`` writes a fresh write token beside the metadata (``values``; it is not part of
  ``LedgerMetadata``), and compares the whole value. A comparison of the metadata alone would be
  wrong: two clients that claim a reserved ledger write the same metadata, and both would believe
  that they won.
* ``delete`` looks whether the node is there. An id is never used twice, so it can be deleted twice.
  The deletion of the last ledger is noted in the counter, in one step with the removal and creation
  of ``/ledgers``, which the store refuses while there is a node below it. Bookies trust an empty
  list only together with this note. If the note was lost, the next deletion of a last ledger makes
  it.

Any thread; every method blocks.

Source: BookKeeper's ``MetadataUpdateLoop``, ``LedgerCreateOp``, ``AbstractZkLedgerManager``.
"""

import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final
from uuid import uuid4

import msgspec

from zbk.errors import (
    BadVersionError,
    CorruptRecordError,
    MetadataAccessError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchLedgerError,
    NotEmptyError,
)
from zbk.metadata.paths import IDGEN, LEDGERS, ledger_id_of, ledger_path
from zbk.metadata.records.compare_and_swap import CompareAndSwap, wait_s
from zbk.metadata.records.instance import initialise, instance_id, not_initialised, read_layout
from zbk.metadata.records.ledger_tree import count_tree, remove_empty_parents, walk_tree
from zbk.metadata.records.namespace_usage import UsageStore
from zbk.metadata.records.record_watch import watch_record
from zbk.metadata.stores.arguments import parent_of
from zbk.metadata.stores.store import (
    Create,
    Delete,
    MetadataStore,
    Node,
    Operation,
    SetValue,
    Watch,
)
from zbk.metadata.values import IdCounter, LedgerLayout, decode, encode
from zbk.protocol.ledger.metadata import LedgerMetadata, check_transition
from zbk.system.event_log import EventLog

CREATE_ATTEMPT_COUNT_MAX: Final = 64
CREATE_COUNT_MAX: Final = 128
"""Ledgers that are created in one step: far below ZooKeeper's limit of 1 MiB for a request."""

NOTE_ATTEMPT_COUNT_MAX: Final = 4
DELETE_ATTEMPT_COUNT_MAX: Final = 4


LOG = EventLog("zbk.metadata")

__all__ = ["LedgerStore", "initialise", "instance_id"]


class LedgerStore:
    """The ledgers of the cluster in ``store``."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        pause: Callable[[float], None] = wait_s,
    ) -> None:
        self._store = store
        self._swap = CompareAndSwap(store, pause)
        self._usage = UsageStore(store)
        self._cached_layout: LedgerLayout | None = None

    def create(self, make: Callable[[int], LedgerMetadata]) -> tuple[LedgerMetadata, int]:
        """Create a ledger with a new id; return its metadata and its version.

        ``make`` receives the id and returns the metadata, with a unique ``creation_token``. It is
        called again with another id if another client was faster.

        Raises:
            MetadataConflictError: too many other clients create ledgers at this moment.
            MetadataUnavailableError: the ledger may or may not exist.
            InvalidOptionError: the store holds no cluster.
            NamespaceFullError: a limit of its namespace is reached.
        """
        return self.create_many(make, 1)[0]

    def create_many(
        self, make: Callable[[int], LedgerMetadata], count: int
    ) -> builtins.list[tuple[LedgerMetadata, int]]:
        """Create ledgers with consecutive ids, all or none; otherwise as ``create``.

        One step of the store creates them, so ``count`` is at most ``CREATE_COUNT_MAX``. ``make``
        may give all of them the same token.
        """
        assert 1 <= count <= CREATE_COUNT_MAX, "one step of the store creates them"

        def attempt() -> list[tuple[LedgerMetadata, int]] | None:
            counter = self._get_counter()
            first_id = decode(IdCounter, counter.value, IDGEN).next_ledger_id
            made = [make(ledger_id) for ledger_id in range(first_id, first_id + count)]
            assert [one.ledger_id for one in made] == list(range(first_id, first_id + count))
            assert all(one.creation_token for one in made), "it identifies this create"
            paths = [self._path(one.ledger_id) for one in made]
            advance = SetValue(IDGEN, _counter_value(first_id + count), counter.version)
            creates = [Create(path, encode(one)) for path, one in zip(paths, made, strict=True)]
            try:
                self._store.multi([advance, *creates, *self._usage.created(made)])
            except BadVersionError:  # another client took the id
                return None
            except NoNodeError:
                for path in {parent_of(path): path for path in paths}.values():
                    self._swap.make_parents(path)
                return None
            except NodeExistsError:  # an operator reset the counter: never overwrite a ledger
                LOG.warning(
                    "metadata.ledger_id_skipped",
                    "%(path)s exists above the counter of ids: skipping the id",
                    path=paths[0],
                )
                with suppress(BadVersionError, MetadataUnavailableError):
                    self._store.set(IDGEN, _counter_value(first_id + 1), counter.version)
                return None
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                found = self._read_back(first_id)
                if found is None or found[0].creation_token != made[0].creation_token:
                    return None
                return [found, *(self.read(one.ledger_id) for one in made[1:])]
            return [(one, 0) for one in made]

        return self._swap.until_done(IDGEN, attempt, CREATE_ATTEMPT_COUNT_MAX)

    def read(self, ledger_id: int, *, is_fresh: bool = False) -> tuple[LedgerMetadata, int]:
        """Return a ledger's metadata and its version; ``is_fresh`` as in ``MetadataStore.get``.

        Raises:
            NoSuchLedgerError: the store answered that there is none.
            CorruptRecordError: the metadata are damaged.
        """
        node = self._get(ledger_id, is_fresh=is_fresh)
        return self._decoded(ledger_id, node), node.version

    def update(
        self,
        ledger_id: int,
        change: Callable[[LedgerMetadata], LedgerMetadata | None],
        *,
        beside: Callable[[LedgerMetadata], Sequence[Operation]] | None = None,
    ) -> tuple[LedgerMetadata, int]:
        """Change a ledger's metadata; return the metadata after the change, and their version.

        ``change`` receives the present metadata and returns the wanted metadata, or ``None`` if
        there is nothing to do; its errors go to the caller. It is called again with the present
        metadata if another client was faster, or if a reply was lost and the write was not made.
        ``beside`` receives the wanted metadata and returns operations on other nodes for the same
        step; it is called again, too.

        Raises:
            NoSuchLedgerError: there is no such ledger, or it was deleted meanwhile.
            IllegalTransitionError: the metadata cannot change in this way.
            MetadataConflictError: other clients changed them ``ATTEMPT_COUNT_MAX`` times in a row.
            MetadataUnavailableError: the change may or may not have been made.
        """
        path = self._path(ledger_id)

        def attempt() -> tuple[LedgerMetadata, int] | None:
            node = self._get(ledger_id)
            current = self._decoded(ledger_id, node)
            wanted = change(current)
            if wanted is None or wanted == current:
                return current, node.version
            check_transition(current, wanted)
            value = encode(wanted, write_token=uuid4().hex)
            others = [] if beside is None else [*beside(wanted)]
            if wanted.is_closed and not current.is_closed:
                others += self._usage.closed(wanted)
            is_made = self._swap.put(path, value, [SetValue(path, value, node.version), *others])
            return (wanted, node.version + 1) if is_made else None

        return self._swap.until_done(path, attempt)

    def delete(self, ledger_id: int) -> None:
        """Delete a ledger's metadata, in any state. Bookies drop its entries later.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            MetadataUnavailableError: it may or may not be deleted.
        """
        path = self._path(ledger_id)
        if not self._swap.remove(path, [Delete(path)], DELETE_ATTEMPT_COUNT_MAX):
            raise NoSuchLedgerError(ledger_id)
        self._tidy_up(path)

    def delete_counted(self, ledger_id: int) -> None:
        """Delete a ledger's metadata, and count it no longer in its namespace. As ``delete``.

        Raises:
            CorruptRecordError: the metadata are damaged.
            MetadataConflictError: other clients were faster, many times in a row.
        """
        path = self._path(ledger_id)

        def attempt() -> bool | None:
            node = self._get(ledger_id)
            changes = self._usage.deleted(self._decoded(ledger_id, node))
            version = node.version if changes else None
            steps: Sequence[Operation] = [Delete(path, version), *changes]
            with suppress(BadVersionError):  # it was closed, or another ledger was counted
                if self._swap.remove(path, steps, DELETE_ATTEMPT_COUNT_MAX):
                    return True
            return None  # if it is gone, the next attempt says so

        self._swap.until_done(path, attempt)
        self._tidy_up(path)

    def next_ledger_id(self, *, is_fresh: bool = False) -> int:
        """Return the id of the next ledger: all ledgers that ever existed are below it.

        ``is_fresh`` as in ``MetadataStore.get``.

        A ledger's node and the counter change together. So if a client reads the counter, and then
        finds no ledger with a lower id in the same session, that ledger was deleted. It is not a
        new ledger that a lagging follower of the store does not have yet.

        Raises:
            MetadataUnavailableError: the store does not answer.
            InvalidOptionError: the store holds no cluster.
        """
        return self.counter(is_fresh=is_fresh).next_ledger_id

    def counter(self, *, is_fresh: bool = False) -> IdCounter:
        """Return the counter of ids with the note that no ledger is left. As ``next_ledger_id``."""
        return decode(IdCounter, self._get_counter(is_fresh=is_fresh).value, IDGEN)

    def list(self, first_id: int = 0) -> Iterator[int]:
        """Yield the ids of the ledgers from ``first_id`` on, ascending.

        The tree is read piece by piece, and parts with lower ids are not read.

        A ledger that is created or deleted meanwhile may or may not be among them.

        Raises:
            MetadataUnavailableError: the rest could not be read. The list never ends early.
            CorruptRecordError: a name is not that of a ledger.
        """
        layout = self._layout()
        try:
            first = self._path(first_id) if first_id else ""
            for path in walk_tree(self._store, LEDGERS, first):
                yield ledger_id_of(path, layout)
        except NoNodeError as error:
            raise not_initialised(self._store) from error

    def count(self) -> int:
        """Return the number of ledgers, from a tree of names that is read piece by piece.

        Raises:
            MetadataUnavailableError, CorruptRecordError: as ``list``.
        """
        try:
            return count_tree(self._store, LEDGERS)
        except NoNodeError as error:
            raise not_initialised(self._store) from error

    def watch(
        self, ledger_id: int, callback: Callable[[tuple[LedgerMetadata, int] | None], None]
    ) -> Watch:
        """Call back with metadata and version, now and after each change; ``None``: no ledger.

        The callback runs in the store's callback thread, and must not block or call the store.
        Damaged metadata are logged and not reported.
        """
        return watch_record(
            self._store,
            self._path(ledger_id),
            f"ledger {ledger_id}",
            lambda node: self._decoded(ledger_id, node),
            callback,
        )

    # ------------------------------------------------------------------ inside

    def _layout(self) -> LedgerLayout:
        if self._cached_layout is None:  # it never changes
            self._cached_layout = read_layout(self._store).ledger_layout
        return self._cached_layout

    def _path(self, ledger_id: int) -> str:
        return ledger_path(ledger_id, self._layout())

    def _get(self, ledger_id: int, *, is_fresh: bool = False) -> Node:
        try:
            return self._store.get(self._path(ledger_id), is_fresh=is_fresh)
        except NoNodeError as error:
            raise NoSuchLedgerError(ledger_id) from error

    def _get_counter(self, *, is_fresh: bool = False) -> Node:
        try:
            return self._store.get(IDGEN, is_fresh=is_fresh)
        except NoNodeError as error:
            raise not_initialised(self._store) from error

    def _decoded(self, ledger_id: int, node: Node) -> LedgerMetadata:
        path = self._path(ledger_id)
        metadata = decode(LedgerMetadata, node.value, path)
        if metadata.ledger_id != ledger_id:
            raise CorruptRecordError(path, 0, f"holds the metadata of ledger {metadata.ledger_id}")
        return metadata

    def _read_back(self, ledger_id: int) -> tuple[LedgerMetadata, int] | None:
        try:
            return self.read(ledger_id)
        except NoSuchLedgerError:
            return None

    def _tidy_up(self, path: str) -> None:
        """Remove the empty parents after a deletion; note it if no ledger is left."""
        with suppress(NotEmptyError, NoNodeError, MetadataUnavailableError):
            remove_empty_parents(self._store, LEDGERS, path)
            self._note_if_emptied()

    def _note_if_emptied(self) -> None:
        for _ in range(NOTE_ATTEMPT_COUNT_MAX):
            node = self._get_counter()
            counter = decode(IdCounter, node.value, IDGEN)
            value = encode(msgspec.structs.replace(counter, is_emptied=True))
            note = SetValue(IDGEN, value, node.version)
            with suppress(BadVersionError):  # a ledger was created, or another client notes it
                # the removal is the proof; a list may be empty for another reason
                self._store.multi([Delete(LEDGERS), Create(LEDGERS), note])
                return


def _counter_value(next_ledger_id: int) -> bytes:
    return encode(IdCounter(next_ledger_id=next_ledger_id))
