"""Data sets: loads that are visible as a whole or not at all, and snapshots to read.

    data_sets = zbk.DataSets(client)
    ticket = data_sets.begin("events")                  # once, by whoever drives the load
    with data_sets.create_ledger(ticket, partition=0, attempt=0) as ledger:   # each task attempt
        ...
    data_sets.commit(ticket, schema, ledgers)           # or data_sets.abort(ticket)

Any thread may use one; it is as good as its client. The rules stand in ``dataset.dataset``,
what becomes of leftovers in ``zbk.client.dataset.garbage``.

Source: the seed's motivation, section Close-to-open.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Unpack

import msgspec

from zbk.client import arguments
from zbk.client.dataset.garbage import Collected, DataSetGarbage
from zbk.client.dataset.ledgers import DataSetClient, DataSetLedgers, LoadTicket, ticket_of
from zbk.client.dataset.loads import TTL_MS, LoadRequest, check_ttl_ms
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.errors import (
    ArgumentTypeError,
    BusyError,
    CorruptRecordError,
    DataSetConflictError,
    InvalidOptionError,
    LoadAbortedError,
    MetadataConflictError,
    NoSuchDataSetError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.metadata.paths import data_set_path
from zbk.protocol.dataset.dataset import (
    LOAD_COUNT_MAX,
    TEXT_SIZE_MAX,
    Contents,
    DataSet,
    Load,
    LoadKind,
    LoadState,
    Version,
    new_load_id,
    password_check,
)
from zbk.protocol.dataset.manifest import DataLedger, schema_hash
from zbk.system.clock import wall_ms

MERGE_ATTEMPT_COUNT_MAX: Final = 16
BEGIN_ATTEMPT_COUNT_MAX: Final = 8
READ_ATTEMPT_COUNT_MAX: Final = 8

__all__ = ["Aborted", "Collected", "DataSetClient", "DataSets", "LoadTicket", "Snapshot"]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a data set: what a reader needs to know of it."""

    name: str
    version: Version
    schema: bytes
    ledgers: tuple[DataLedger, ...]


class Aborted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an abort."""

    state: LoadState | None  # of the load: COMMITTED if a commit was quicker; ``None``: unknown
    deleted_count: int  # ledgers


class DataSets:
    """The data sets of a client's cluster. ``password`` is that of their ledgers."""

    def __init__(
        self,
        client: DataSetClient,
        password: bytes = b"",
        *,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        password = arguments.password(password)
        now_ms = arguments.function("now_ms", now_ms)
        try:
            self._store = client.data_set_store
        except AttributeError:
            why = "give what zbk.connect returns"
            raise ArgumentTypeError("client", type(client).__name__, why) from None
        self._client = client
        self._password = password
        self._now_ms = now_ms
        self._ledgers = DataSetLedgers(client, password)
        self._garbage = DataSetGarbage(self._store, self._ledgers, now_ms)

    # ------------------------------------------------------------------ a load

    def begin(
        self,
        name: str,
        kind: LoadKind = LoadKind.APPEND,
        *,
        who: str = "",
        ttl_ms: int = TTL_MS,
        stream: str = "",
        batch_id: int = -1,
        load_id: str = "",
    ) -> LoadTicket:
        """Begin a load; the data set is made if there is none of this name.

        ``stream`` and ``batch_id`` name a micro-batch: however often it is loaded, it is committed
        once. ``ttl_ms``: a load that takes longer may be aborted by anybody, by the clock of
        whoever does. Loads whose time is over are settled: their leftovers go.

        ``load_id``, from ``new_load_id``: where nobody drives the load of a micro-batch, all who
        take part in it begin it, with the same words; one of them does, and the others are given
        the same ticket. Its time is the one in the id.

        Raises:
            InvalidOptionError: no data set can have this name, or no load these options.
            LoadAbortedError: the load of this ``load_id`` has ended.
            DataSetConflictError: an append, and the data set's ledgers have another password.
            BusyError: too many loads are under way.
        """
        name = arguments.data_set_name(name)
        kind = arguments.member(LoadKind, "kind", kind)
        request = LoadRequest(
            kind=kind, who=who, ttl_ms=ttl_ms, stream=stream, batch_id=batch_id, load_id=load_id
        )
        request.check()
        for _ in range(BEGIN_ATTEMPT_COUNT_MAX):
            with suppress(NoSuchDataSetError):  # dropped meanwhile: it is made anew
                data_set = self._made(name)
                if kind is LoadKind.APPEND:
                    data_set.check_password(self._password_check(data_set.data_set_id))
                known_count = self._garbage.settle_due(name, data_set.data_set_id)
                if known_count >= LOAD_COUNT_MAX:
                    raise BusyError(f"data set {name!r}: {known_count} loads are known")
                load = request.load(
                    data_set, self._client.next_ledger_id(), self._now_ms(), self._store.new_id
                )
                self._store.begin(name, load)
                if load_id:
                    load = self._begun(name, load)
                return ticket_of(name, load)
        raise MetadataConflictError(data_set_path(name), "others drop it again and again")

    def new_load_id(self, ttl_ms: int = TTL_MS) -> str:
        """Return the id of a load that is still to be begun."""
        return new_load_id(self._now_ms() + check_ttl_ms(ttl_ms), self._store.new_id())

    def check_options(self, **options: Unpack[LedgerOptions]) -> None:
        """Refuse keywords with which no ledger can be made, before any is.

        Raises:
            InvalidOptionError, InvalidQuorumError, UnsupportedLedgerError: as ``create_ledger``.
        """
        self._ledgers.check_options(options)

    def create_ledger(
        self,
        ticket: LoadTicket,
        *,
        partition: int,
        attempt: int,
        **options: Unpack[LedgerOptions],
    ) -> LedgerWriter:
        """Make a data ledger of a load; the keywords are those of ``Client.create_ledger``.

        Raises:
            InvalidOptionError: a password is among them: it is the same for all of a data set.
        """
        ticket = arguments.struct("ticket", ticket, LoadTicket)
        partition = arguments.integer("partition", partition, 0, arguments.NUMBER_MAX)
        attempt = arguments.integer("attempt", attempt, 0, arguments.NUMBER_MAX)
        return self._ledgers.create(ticket, partition, attempt, options)

    def commit(
        self, ticket: LoadTicket, schema: bytes, ledgers: Sequence[DataLedger], *, who: str = ""
    ) -> DataSet:
        """Make a load visible, as one version; return the data set as it is now.

        Each ledger must be closed. Once is enough, and twice is the same. ``who``: in the history,
        in the place of what ``begin`` was told.

        Raises:
            InvalidOptionError: a ledger is not closed, not the load's, or not as it is said to be.
            NoSuchLedgerError: a ledger was deleted by hand.
            NoSuchDataSetError: the data set was dropped.
            LoadAbortedError: the load was aborted; nothing of it is visible.
            DataSetConflictError: another load, schema or password is in the way; likewise. Or the
                load ended so long ago that nobody knows how.
            MetadataConflictError: other loads were quicker, again and again; commit again.
            MetadataUnavailableError: it may or may not be visible; commit again to know.
        """
        ticket = arguments.struct("ticket", ticket, LoadTicket)
        schema = arguments.payload(schema, "schema")
        ledgers = [arguments.struct("ledgers", one, DataLedger) for one in _listed(ledgers)]
        who = arguments.text("who", who, TEXT_SIZE_MAX)
        done = self._committed(ticket)
        if done is not None:
            return done
        try:
            self._ledgers.check(ticket, ledgers)
            for _ in range(MERGE_ATTEMPT_COUNT_MAX):
                done = self._commit(ticket, schema, ledgers, who, self._to_merge(ticket))
                if done is not None:
                    return done
        except NoSuchLedgerError:
            # whoever aborts a load deletes its ledgers, the manifest too: say that, if it is so
            self._committed(ticket)
            raise
        raise MetadataConflictError(
            data_set_path(ticket.name),
            f"other loads were quicker, {MERGE_ATTEMPT_COUNT_MAX} times in a row",
        )

    def abort(self, ticket: LoadTicket) -> Aborted:
        """Make sure that a load never becomes visible, and delete its ledgers.

        A load that was committed stays as it is, whatever its driver was told: look at ``state``.

        Raises:
            MetadataUnavailableError: it may or may not have been aborted, or swept; abort again.
            UnauthorizedError, DamageError: it was aborted, and its ledgers are still there, as
                nobody can say what the versions list.
        """
        ticket = arguments.struct("ticket", ticket, LoadTicket)
        load = self._store.abort(ticket.name, ticket.data_set_id, ticket.load_id)
        if load is None or load.state is not LoadState.ABORTED:
            return Aborted(state=load.state if load else None, deleted_count=0)
        return Aborted(state=load.state, deleted_count=self._garbage.sweep(ticket.name, load))

    # ------------------------------------------------------------------ reading

    def history(self, name: str) -> DataSet:
        """Return a data set: its versions, the oldest first.

        Raises:
            NoSuchDataSetError: there is none of this name.
        """
        return self._store.read(arguments.data_set_name(name))[0]

    def has_schema(self, name: str, schema: bytes) -> bool:
        """Return whether the last version has this schema; true where there is no version."""
        schema = arguments.payload(schema, "schema")
        try:
            current = self.history(name).current
        except NoSuchDataSetError:
            return True
        return current is None or current.schema_hash == schema_hash(schema)

    def loads(self, name: str) -> dict[str, Load]:
        """Return the loads that are under way, and those that ended not long ago, by id.

        Raises:
            NoSuchDataSetError: there is no data set of this name.
        """
        return self._store.loads(name, self.history(name).data_set_id)

    def ticket(self, name: str, load_id: str) -> LoadTicket:
        """Return the ticket of a load that another process began, as for ``abort``.

        Raises:
            NoSuchDataSetError: there is no data set of this name.
            InvalidOptionError: it knows no such load.
        """
        load_id = arguments.load_id(load_id)
        loads = self.loads(name)
        if load_id not in loads:
            raise InvalidOptionError(
                "load_id", load_id, f"no load of data set {name!r}: see `zbk dataset loads {name}`"
            )
        return ticket_of(name, loads[load_id])

    def read(self, name: str, version: int | None = None) -> Snapshot:
        """Return a version, by default the last one, with its schema and its ledgers.

        Raises:
            NoSuchDataSetError: there is no data set of this name.
            NoSuchVersionError: it has no such version, or none at all.
            UnauthorizedError: its ledgers have another password.
            CorruptRecordError: a manifest is damaged, or was deleted by hand.
        """
        if version is not None:
            version = _version(version)
        for _ in range(READ_ATTEMPT_COUNT_MAX):
            data_set = self.history(name)
            try:
                return self._snapshot(data_set, data_set.version(version))
            except NoSuchLedgerError:
                continue  # the version was dropped meanwhile: the next look says so
        raise CorruptRecordError(
            f"data set {name!r}", 0, "a manifest is gone that one of its versions lists"
        )

    # ------------------------------------------------------------------ tidying

    def drop_version(self, name: str, version: int) -> DataSet:
        """Remove a version that is not the last one; ``collect`` deletes what it alone held.

        Raises:
            NoSuchVersionError: there is no such version.
            DataSetConflictError: it is the last one.
        """
        return self._store.drop_version(arguments.data_set_name(name), _version(version))

    def drop(self, name: str) -> int:
        """Remove a data set and all of its ledgers; return how many ledgers were deleted.

        Loads that are under way end with an error. If this ends early, ``collect_all`` finds the
        ledgers that are left.

        Raises:
            NoSuchDataSetError: there is none of this name.
            BusyError: too many loads are under way.
        """
        dropped = self._store.drop(arguments.data_set_name(name))
        return self._garbage.delete_all(dropped.data_set_id)

    def collect(self, name: str, *, is_dry_run: bool = False) -> Collected:
        """Delete the ledgers of a data set that no version lists and no live load may still commit.

        Loads whose time is over are aborted before. ``is_dry_run``: look, and change nothing.

        Raises:
            NoSuchDataSetError: there is none of this name.
            UnauthorizedError, DamageError: its manifests cannot be read; nothing was deleted.
        """
        name = arguments.data_set_name(name)
        is_dry_run = arguments.flag("is_dry_run", is_dry_run)
        return self._garbage.collect(name, is_dry_run=is_dry_run)

    def collect_all(self, *, is_dry_run: bool = False) -> Iterator[Collected]:
        """Do so for each data set, and for what dropped ones have left."""
        return self._garbage.collect_all(is_dry_run=arguments.flag("is_dry_run", is_dry_run))

    def list(self) -> list[str]:
        """Return the names of all data sets, sorted."""
        return self._store.list()

    # ------------------------------------------------------------------ private

    def _made(self, name: str) -> DataSet:
        """Return a data set, made if there is none."""
        try:
            return self._store.read(name)[0]
        except NoSuchDataSetError:
            self._store.create(name, self._now_ms())
            return self._store.read(name)[0]

    def _begun(self, name: str, load: Load) -> Load:
        """Return a load as the first one who began it did."""
        found = self._store.read_load(name, load.data_set_id, load.load_id)
        if found is None or found[0].state is not LoadState.OPEN:
            raise LoadAbortedError(name, load.load_id)
        return found[0]

    def _committed(self, ticket: LoadTicket) -> DataSet | None:
        return self._store.committed(
            ticket.name, ticket.data_set_id, ticket.load_id, ticket.base_version
        )

    def _to_merge(self, ticket: LoadTicket) -> Snapshot | None:
        """Return the last version, if the load must list all of it, too."""
        if ticket.kind is not LoadKind.APPEND:
            return None
        data_set, _version = self._store.read_same(ticket.name, ticket.data_set_id)
        return self.read(ticket.name) if data_set.needs_merge else None

    def _commit(
        self,
        ticket: LoadTicket,
        schema: bytes,
        ledgers: Sequence[DataLedger],
        who: str,
        merged: Snapshot | None,
    ) -> DataSet | None:
        """Write a manifest and commit it; ``None``: it has to be another one.

        A manifest that is listed by no version goes again, unless nobody knows.
        """
        listed = [*(merged.ledgers if merged else ()), *ledgers]
        contents = Contents(
            manifest=self._ledgers.write_manifest(ticket, schema, listed),
            schema_hash=schema_hash(schema),
            password_check=self._password_check(ticket.data_set_id),
            ledger_count=len(ledgers),
            row_count=sum(ledger.row_count for ledger in ledgers),
            size=sum(ledger.size for ledger in ledgers),
            who=who,
        )
        try:
            done = self._store.commit(
                ticket.name,
                ticket.data_set_id,
                ticket.load_id,
                ticket.base_version,
                contents,
                self._now_ms(),
                merged.version if merged else None,
            )
        except (LoadAbortedError, DataSetConflictError, NoSuchDataSetError):
            self._ledgers.discard(contents.manifest)
            raise
        if done is None:
            self._ledgers.discard(contents.manifest)
            return None
        data_set, load = done
        if load is not None and load.manifest != contents.manifest:  # an earlier attempt was made
            self._ledgers.discard(contents.manifest)
        if load is not None and load.state is LoadState.ABORTED:  # another load has its batch
            with suppress(ZbkError):  # what is left of it is for ``collect``
                self._garbage.sweep(ticket.name, load)
        return data_set

    def _snapshot(self, data_set: DataSet, version: Version) -> Snapshot:
        manifests = [
            self._ledgers.read_manifest(ledger_id, data_set.data_set_id)
            for ledger_id in version.manifests
        ]
        ledgers = tuple(ledger for one in manifests for ledger in one.ledgers)
        schema = manifests[-1].schema
        if len(ledgers) != version.ledger_count or schema_hash(schema) != version.schema_hash:
            raise CorruptRecordError(
                f"data set {data_set.name!r}, version {version.version}",
                0,
                f"its manifests list {len(ledgers)} ledgers, or another schema than it has",
            )
        return Snapshot(name=data_set.name, version=version, schema=schema, ledgers=ledgers)

    def _password_check(self, data_set_id: str) -> str:
        return password_check(self._password, data_set_id)


def _version(value: object) -> int:
    return arguments.integer("version", value, 1, arguments.NUMBER_MAX)


def _listed(ledgers: object) -> list[object]:
    if isinstance(ledgers, Iterable) and not isinstance(ledgers, msgspec.Struct):
        return list(ledgers)
    why = "give a sequence of DataLedger"
    raise ArgumentTypeError("ledgers", type(ledgers).__name__, why)
