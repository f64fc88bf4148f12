"""The ledgers' metadata in the store: ids, create, the one compare-and-swap loop, listing.

Lost replies. A change whose caller got ``MetadataUnavailableError`` may have been made. Nobody here
guesses, and nobody sends the change again blindly:

* ``create`` takes the id from the counter and makes the ledger's node in one ``multi``, so an id is
  never given out twice, not even after its ledger was deleted, and none is lost. After a lost reply
  the node is read back: it is ours exactly if it has our ``creation_token``.
* ``update`` writes a fresh write token beside the metadata (``values``; it is not part of
  ``LedgerMetadata``). After a lost reply the node is read back: if its whole value is the one we
  sent, this very attempt was applied. Comparing the metadata alone would not do: two clients that
  claim a reserved ledger write the same metadata, and both would believe that they won. If the
  value is another one, our write was not made, or was made and changed again since; either way
  ``change`` decides anew on what is there now, as after ``BadVersionError``.
* ``delete`` looks again: gone is gone, and an id that is never used twice can be deleted twice.
  Where it removed the last ledger it notes so in the counter, in one step with the removal and the
  making of ``/ledgers``, which the store refuses while anything is below it. Bookies believe an
  empty list only beside this note; one that was lost is made by the next deletion of a last ledger.

If reading back gets no answer either, ``MetadataUnavailableError`` goes to the caller: unknown.

Any thread; every method blocks.

Source: BookKeeper's ``MetadataUpdateLoop``, ``LedgerCreateOp``, ``AbstractZkLedgerManager``.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final
from uuid import uuid4

import msgspec

from zbk.errors import (
    BadVersionError,
    CorruptRecordError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchLedgerError,
    NotEmptyError,
    ZbkError,
)
from zbk.metadata.paths import (
    IDGEN,
    LEDGERS,
    ledger_id_of,
    ledger_path,
)
from zbk.metadata.records.compare_and_swap import CompareAndSwap, wait_s
from zbk.metadata.records.instance import initialise, instance_id, not_initialised, read_layout
from zbk.metadata.records.ledger_tree import remove_empty_parents, walk_tree
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

CREATE_ATTEMPT_COUNT_MAX: Final = 64
CREATE_COUNT_MAX: Final = 128
"""Ledgers that are made in one step: far below ZooKeeper's limit of 1 MiB for a request."""

NOTE_ATTEMPT_COUNT_MAX: Final = 4


LOG = logging.getLogger("zbk.metadata")

__all__ = ["LedgerStore", "initialise", "instance_id"]


class LedgerStore:
    """The ledgers of the cluster whose metadata is in ``store``."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        pause: Callable[[float], None] = wait_s,
    ) -> None:
        self._store = store
        self._swap = CompareAndSwap(store, pause)
        self._cached_layout: LedgerLayout | None = None

    def create(self, make: Callable[[int], LedgerMetadata]) -> tuple[LedgerMetadata, int]:
        """Make a ledger under a new id; return its metadata and its version.

        ``make`` gets the id and returns the metadata, with a ``creation_token`` that no other
        create has. It is called again, with another id, where somebody else was quicker.

        Raises:
            MetadataConflictError: too many others are creating ledgers at this moment.
            MetadataUnavailableError: the ledger may or may not have been made.
            InvalidOptionError: the store holds no cluster.
        """
        return self.create_many(make, 1)[0]

    def create_many(
        self, make: Callable[[int], LedgerMetadata], count: int
    ) -> list[tuple[LedgerMetadata, int]]:
        """Make ledgers under ids in a row, all of them or none; as ``create`` otherwise.

        One step of the store takes them, so ``count`` is bounded by what that takes: the caller
        asks for ``CREATE_COUNT_MAX`` at most. ``make`` may give all of them the same token.
        """
        assert 1 <= count <= CREATE_COUNT_MAX, "one step of the store takes them"

        def attempt() -> list[tuple[LedgerMetadata, int]] | None:
            counter = self._get_counter()
            first_id = decode(IdCounter, counter.value, IDGEN).next_ledger_id
            made = [make(ledger_id) for ledger_id in range(first_id, first_id + count)]
            assert [one.ledger_id for one in made] == list(range(first_id, first_id + count))
            assert all(one.creation_token for one in made), "it tells our create from another's"
            paths = [self._path(one.ledger_id) for one in made]
            advance = SetValue(IDGEN, _counter_value(first_id + count), counter.version)
            creates = [Create(path, encode(one)) for path, one in zip(paths, made, strict=True)]
            try:
                self._store.multi([advance, *creates])
            except BadVersionError:  # another client took the id
                return None
            except NoNodeError:
                for path in {parent_of(path): path for path in paths}.values():
                    self._swap.make_parents(path)
                return None
            except NodeExistsError:  # a counter put back by hand: never overwrite a ledger
                LOG.warning("%s exists and the counter says it does not: skipping", paths[0])
                with suppress(BadVersionError, MetadataUnavailableError):
                    self._store.set(IDGEN, _counter_value(first_id + 1), counter.version)
                return None
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
            NoSuchLedgerError: the store says that there is none: an answer, never a guess.
            CorruptRecordError: what is there is damaged.
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
        """Change a ledger's metadata; return what is there afterwards, and its version.

        ``change`` gets the metadata as it is and returns it as it should be, or ``None`` if there
        is nothing to do; what it raises goes to the caller. It is called again with what is there
        then whenever somebody else was quicker, or a reply was lost and our write is not there.
        ``beside`` gets what is about to be written and returns what is done in the same step, on
        other nodes; it is called again, too.

        Raises:
            NoSuchLedgerError: there is no such ledger, or no more.
            IllegalTransitionError: the metadata may not change in this way.
            MetadataConflictError: others changed it ``ATTEMPT_COUNT_MAX`` times in a row.
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
            others = () if beside is None else beside(wanted)
            is_made = self._swap.put(path, value, [SetValue(path, value, node.version), *others])
            return (wanted, node.version + 1) if is_made else None

        return self._swap.until_done(path, attempt)

    def delete(self, ledger_id: int) -> None:
        """Remove a ledger's metadata, whatever its state. Bookies drop its entries later.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            MetadataUnavailableError: it may or may not have been removed.
        """
        path = self._path(ledger_id)
        if not self._swap.remove(path, [Delete(path)]):
            raise NoSuchLedgerError(ledger_id)
        self._tidy_up(path)

    def next_ledger_id(self, *, is_fresh: bool = False) -> int:
        """Return the id that the next ledger will get: all that were ever made are below it.

        ``is_fresh`` as in ``MetadataStore.get``.

        A ledger's node and the counter change together. Within one session of the store, whoever
        has read the counter and then hears of no such ledger, its id being below the counter, has
        heard of one that was deleted, and not of one that this follower of the store lacks yet.

        Raises:
            MetadataUnavailableError: the store does not answer.
            InvalidOptionError: the store holds no cluster.
        """
        return self.counter(is_fresh=is_fresh).next_ledger_id

    def counter(self, *, is_fresh: bool = False) -> IdCounter:
        """Return the counter of ids, and the note that no ledger is left; otherwise as above."""
        return decode(IdCounter, self._get_counter(is_fresh=is_fresh).value, IDGEN)

    def list(self) -> Iterator[int]:
        """Yield the ids of all ledgers, ascending, reading the tree piece by piece.

        A ledger that is made or deleted meanwhile may or may not be among them.

        Raises:
            MetadataUnavailableError: the rest could not be read. Never ends early instead.
            CorruptRecordError: there is a name that is no ledger's.
        """
        layout = self._layout()
        try:
            for path in walk_tree(self._store, LEDGERS):
                yield ledger_id_of(path, layout)
        except NoNodeError as error:
            raise not_initialised(self._store) from error

    def watch(
        self, ledger_id: int, callback: Callable[[tuple[LedgerMetadata, int] | None], None]
    ) -> Watch:
        """Call back with metadata and version: now, and after each change; None: no such ledger.

        Runs in the store's callback thread and must not block or call the store. What is damaged
        is logged and left out.
        """

        def on_node(node: Node | None) -> None:
            if node is None:
                callback(None)
                return
            try:
                metadata = self._decoded(ledger_id, node)
            except ZbkError as error:
                LOG.error("watching ledger %d: %s", ledger_id, error)  # noqa: TRY400 - the text says all
            else:
                callback((metadata, node.version))

        return self._store.watch_node(self._path(ledger_id), on_node)

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
        """Remove the parents that a deletion has left empty; note it if no ledger is left."""
        with suppress(NotEmptyError, NoNodeError, MetadataUnavailableError):
            remove_empty_parents(self._store, LEDGERS, path)
            self._note_if_emptied()

    def _note_if_emptied(self) -> None:
        for _ in range(NOTE_ATTEMPT_COUNT_MAX):
            node = self._get_counter()
            counter = decode(IdCounter, node.value, IDGEN)
            value = encode(msgspec.structs.replace(counter, is_emptied=True))
            note = SetValue(IDGEN, value, node.version)
            with suppress(BadVersionError):  # a ledger was made, or somebody else notes it
                # the removal proves it: a listing that is empty for another reason does not
                self._store.multi([Delete(LEDGERS), Create(LEDGERS), note])
                return


def _counter_value(next_ledger_id: int) -> bytes:
    return encode(IdCounter(next_ledger_id=next_ledger_id))
