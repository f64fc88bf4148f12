"""The data sets in the store: creation, loads, commits, aborts, drops, listing.

As a log (``records.logs``), a data set has two nodes: ``/datasets/<name>`` is its head and holds a
*data set id*; its versions are below it, under that id. Below those is a node for each load. A
commit writes versions and load in one step, each at the version that was read; an abort writes the
load alone. So exactly one of commit and abort of a load happens, even if replies are lost: both
read the load back and report its state.

Versions and loads are read fresh (``MetadataStore.get``), so a lagging server never answers about
the state of a load or the list of versions. A head never changes; if it is outdated, the nodes that
it points to are missing.

Any thread; every method blocks.

Source: BookKeeper's ``MetadataUpdateLoop`` for the loops; Delta's log, Iceberg's snapshots.
"""

import builtins
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import uuid4

from zbk.errors import (
    BadVersionError,
    BusyError,
    CorruptRecordError,
    LoadAbortedError,
    MetadataAccessError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchDataSetError,
    NotEmptyError,
)
from zbk.metadata.paths import DATA_SETS, data_set_list_path, data_set_path, load_path
from zbk.metadata.records.compare_and_swap import (
    CompareAndSwap,
    find_children,
    find_named,
    find_node,
    wait_s,
)
from zbk.metadata.stores.store import Create, Delete, MetadataStore, Operation, SetValue
from zbk.metadata.values import DataSetHead, decode, encode
from zbk.protocol.dataset.dataset import Contents, DataSet, Load, LoadState, Version

DROP_LOAD_COUNT_MAX: Final = 200
"""Open loads that are dropped with a data set, in one step."""


class DataSetStore:
    """The data sets of the cluster in ``store``."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        pause: Callable[[float], None] = wait_s,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        """Use ``new_id`` for unique ids of 32 hexadecimal digits."""
        self._store = store
        self._swap = CompareAndSwap(store, pause)
        self.new_id = new_id

    def create(self, name: str, created_ms: int) -> None:
        """Create an empty data set if there is none with this name.

        Raises:
            InvalidOptionError: no data set can have this name.
            MetadataUnavailableError: it may or may not exist.
        """
        path = data_set_path(name)
        data_set_id = self.new_id()
        data_set = DataSet(name=name, data_set_id=data_set_id, created_ms=created_ms)
        make = [
            Create(path, encode(DataSetHead(data_set_id=data_set_id))),
            Create(data_set_list_path(name, data_set_id), encode(data_set)),
        ]
        self._swap.create(path, make, is_fresh=True)

    def read(self, name: str) -> tuple[DataSet, int]:
        """Return a data set and the version of its node, as of now.

        Raises:
            NoSuchDataSetError: the store answered that there is none.
            CorruptRecordError: the record is damaged.
        """
        path = data_set_path(name)

        def read_versions(data_set_id: str) -> tuple[DataSet, int]:
            list_path = data_set_list_path(name, data_set_id)
            node = self._store.get(list_path, is_fresh=True)
            data_set = decode(DataSet, node.value, list_path)
            if (data_set.name, data_set.data_set_id) != (name, data_set_id):
                raise CorruptRecordError(list_path, 0, f"holds data set {data_set.name}")
            return data_set, node.version

        found = find_named(
            lambda: decode(DataSetHead, self._store.get(path).value, path).data_set_id,
            read_versions,
        )
        if found is None:
            raise NoSuchDataSetError(name)
        return found

    def read_same(self, name: str, data_set_id: str) -> tuple[DataSet, int]:
        """Return a data set as ``read`` does, if it has this id.

        Raises:
            NoSuchDataSetError: there is no such data set; another one may have its name now.
        """
        data_set, version = self.read(name)
        if data_set.data_set_id != data_set_id:
            raise NoSuchDataSetError(name)
        return data_set, version

    # ------------------------------------------------------------------ loads

    def begin(self, name: str, load: Load) -> None:
        """Record a load, before any of its ledgers is created.

        Raises:
            NoSuchDataSetError: the data set was dropped since it was read.
            MetadataUnavailableError: it may or may not be recorded.
        """
        path = load_path(name, load.data_set_id, load.load_id)
        value = encode(load)

        def attempt() -> bool | None:
            try:
                self._store.create(path, value)
            except NodeExistsError:
                return True  # an attempt of this call was made: the id is unique
            except NoNodeError as error:
                raise NoSuchDataSetError(name) from error
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                return True if find_node(self._store, path, is_fresh=True) else None
            return True

        self._swap.until_done(path, attempt)

    def read_load(self, name: str, data_set_id: str, load_id: str) -> tuple[Load, int] | None:
        """Return a load and the version of its node; ``None`` if there is no record of it."""
        path = load_path(name, data_set_id, load_id)
        node = find_node(self._store, path, is_fresh=True)
        if node is None:
            return None
        load = decode(Load, node.value, path)
        if (load.data_set_id, load.load_id) != (data_set_id, load_id):
            raise CorruptRecordError(path, 0, f"holds load {load.load_id}")
        return load, node.version

    def load_ids(self, name: str, data_set_id: str) -> builtins.list[str]:
        """Return the ids of the recorded loads, sorted: those that expire first come first.

        Raises:
            NoSuchDataSetError: the data set was dropped.
        """
        try:
            return sorted(self._store.children(data_set_list_path(name, data_set_id)))
        except NoNodeError as error:
            raise NoSuchDataSetError(name) from error

    def loads(self, name: str, data_set_id: str) -> dict[str, Load]:
        """Return the recorded loads, by id.

        Raises:
            NoSuchDataSetError: the data set was dropped.
        """
        names = self.load_ids(name, data_set_id)
        found = {load_id: self.read_load(name, data_set_id, load_id) for load_id in names}
        return {load_id: pair[0] for load_id, pair in found.items() if pair is not None}

    def committed(
        self, name: str, data_set_id: str, load_id: str, base_version: int
    ) -> DataSet | None:
        """Return the data set if a load's commit is over; ``None`` if the load is OPEN.

        Raises:
            NoSuchDataSetError: it was dropped.
            LoadAbortedError: the load was aborted.
            DataSetConflictError: the load has no record any more, so its end is unknown.
        """
        found = self.read_load(name, data_set_id, load_id)
        data_set, _version = self.read_same(name, data_set_id)
        if found is None:
            data_set.check_remembered(load_id, base_version)
            return data_set
        load, _version = found
        if load.state is LoadState.ABORTED and not data_set.has_batch(load):
            raise LoadAbortedError(name, load_id)
        return None if load.state is LoadState.OPEN else data_set

    def commit(
        self,
        name: str,
        data_set_id: str,
        load_id: str,
        base_version: int,
        contents: Contents,
        now_ms: int,
        merged: Version | None = None,
    ) -> tuple[DataSet, Load | None] | None:
        """Commit a load by the rule of ``DataSet.committed``; return both after the commit.

        A load that was faster is not a conflict here: the rule is applied again. The load is
        ``None`` if it has no record any more and is in a version. The result is ``None`` if the
        last version's manifests must be merged first.

        Raises:
            NoSuchDataSetError: it was dropped.
            LoadAbortedError: the load was aborted.
            DataSetConflictError: by the rule; or the load has no record any more, so its end is
                unknown.
            MetadataAccessError: the store refuses the change.
            MetadataUnavailableError: it may or may not be committed: ask ``committed``.
        """

        def attempt() -> tuple[tuple[DataSet, Load | None] | None] | None:
            found = self.read_load(name, data_set_id, load_id)
            data_set, version = self.read_same(name, data_set_id)
            if found is None:
                data_set.check_remembered(load_id, base_version)
                return ((data_set, None),)
            load, load_version = found
            decided = data_set.committed(load, contents, now_ms, merged)
            if decided is None:
                return (None,)
            after, done = decided
            changes: list[Operation] = []
            if done is not load:
                path = load_path(name, data_set_id, load_id)
                changes.append(SetValue(path, encode(done), load_version))
            if after is not data_set:
                path = data_set_list_path(name, data_set_id)
                changes.append(SetValue(path, encode(after), version))
            if not changes:
                return ((data_set, load),)
            try:
                self._store.multi(changes)
            except MetadataAccessError:
                raise
            except (BadVersionError, NoNodeError, MetadataUnavailableError):
                return None  # maybe made: the next attempt reads the load
            return ((after, done),)

        return self._swap.until_done(data_set_path(name), attempt)[0]

    def abort(self, name: str, data_set_id: str, load_id: str) -> Load | None:
        """Abort a load that is OPEN; return the load, which may be COMMITTED.

        ``None`` if there is no record of it.

        Raises:
            MetadataAccessError: the store refuses the change.
            MetadataUnavailableError: it may or may not be aborted.
        """
        path = load_path(name, data_set_id, load_id)

        def attempt() -> tuple[Load | None] | None:
            found = self.read_load(name, data_set_id, load_id)
            if found is None:
                return (None,)
            load, version = found
            wanted = load.aborted()
            if wanted is load:
                return (load,)
            try:
                self._store.set(path, encode(wanted), version)
            except MetadataAccessError:
                raise
            except (BadVersionError, NoNodeError, MetadataUnavailableError):
                return None  # maybe made: the next attempt reads it
            return (wanted,)

        return self._swap.until_done(path, attempt)[0]

    def forget_load(self, name: str, data_set_id: str, load_id: str) -> None:
        """Remove the record of a load that has ended: such a load never changes again.

        Raises:
            MetadataUnavailableError: the record may or may not be removed.
        """
        with suppress(NoNodeError):
            self._store.delete(load_path(name, data_set_id, load_id))

    # ------------------------------------------------------------------ versions

    def drop_version(self, name: str, number: int) -> DataSet:
        """Remove one version by the rule of ``DataSet.without_version``; return the data set.

        Raises:
            NoSuchDataSetError, NoSuchVersionError, DataSetConflictError: by the rule.
            MetadataUnavailableError: it may or may not be removed.
        """
        sent: list[DataSet] = []  # written, perhaps, in an attempt without an answer

        def attempt() -> DataSet | None:
            data_set, version = self.read(name)
            is_ours = bool(sent) and data_set.data_set_id == sent[0].data_set_id
            if is_ours and all(one.version != number for one in data_set.versions):
                return data_set
            after = data_set.without_version(number)
            path = data_set_list_path(name, data_set.data_set_id)
            try:
                self._store.set(path, encode(after), version)
            except (BadVersionError, NoNodeError):
                return None
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                sent[:] = [after]
                return None
            return after

        return self._swap.until_done(data_set_path(name), attempt)

    def drop(self, name: str) -> DataSet:
        """Delete a data set with its loads; return its last state. Its ledgers stay.

        Raises:
            NoSuchDataSetError: there is no such data set.
            BusyError: too many loads are open.
            MetadataUnavailableError: it may or may not be deleted.
        """
        dropped: list[DataSet] = []  # the one to drop: never one that is created after it

        def attempt() -> DataSet | None:
            try:
                data_set, version = self.read(name)
            except NoSuchDataSetError:
                if dropped:
                    return dropped[0]
                raise
            if dropped and dropped[0].data_set_id != data_set.data_set_id:
                return dropped[0]
            try:
                self._store.multi(self._deletes(data_set, version))
            except (BadVersionError, NoNodeError, NotEmptyError, NoSuchDataSetError):
                return None  # a load began or ended, or another client drops it
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                dropped[:] = [data_set]
                return None
            return data_set

        return self._swap.until_done(data_set_path(name), attempt)

    def list(self) -> builtins.list[str]:
        """Return the names of all data sets, sorted."""
        return find_children(self._store, DATA_SETS)

    # ------------------------------------------------------------------ inside

    def _deletes(self, data_set: DataSet, version: int) -> Sequence[Operation]:
        """Return the deletes of a data set for one step; remove loads that have ended before."""
        name, data_set_id = data_set.name, data_set.data_set_id
        loads = self.loads(name, data_set_id)
        live = [load_id for load_id, load in loads.items() if load.state is LoadState.OPEN]
        if len(live) > DROP_LOAD_COUNT_MAX:
            raise BusyError(
                f"data set {name!r}: {len(live)} loads are open, and no more than "
                f"{DROP_LOAD_COUNT_MAX} can be dropped with it"
            )
        for load_id in loads.keys() - set(live):
            self.forget_load(name, data_set_id, load_id)
        return [
            *(Delete(load_path(name, data_set_id, load_id)) for load_id in live),
            Delete(data_set_list_path(name, data_set_id), version),
            Delete(data_set_path(name)),
        ]
