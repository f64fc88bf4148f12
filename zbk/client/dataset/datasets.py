"""Data sets: loads that become visible as a whole or not at all, and snapshots to read.

    data_sets = zbk.DataSets(client)
    ticket = data_sets.begin("events")                  # once, by the driver of the load
    with data_sets.create_ledger(ticket, partition=0, attempt=0) as ledger:   # each task attempt
        ...
    data_sets.commit(ticket, schema, ledgers)           # or data_sets.abort(ticket)

Any thread may use one, as long as its client is open. The rules are in ``dataset.dataset``;
``zbk.client.dataset.garbage`` says what happens to leftovers.

Source: the seed's motivation, section Close-to-open.
"""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Unpack

import msgspec

from zbk.client import arguments
from zbk.client.dataset.commits import LoadCommitter
from zbk.client.dataset.garbage import Collected, DataSetGarbage
from zbk.client.dataset.ledgers import DataSetClient, DataSetLedgers, LoadTicket, ticket_of
from zbk.client.dataset.loads import TTL_MS, LoadRequest, check_ttl_ms
from zbk.client.dataset.snapshots import Snapshot, read_snapshot
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.errors import (
    ArgumentTypeError,
    BusyError,
    InvalidOptionError,
    LoadAbortedError,
    MetadataConflictError,
    NoSuchDataSetError,
)
from zbk.metadata.paths import data_set_path
from zbk.protocol.dataset.dataset import (
    LOAD_COUNT_MAX,
    TEXT_SIZE_MAX,
    DataSet,
    Load,
    LoadKind,
    LoadState,
    new_load_id,
    password_check,
)
from zbk.protocol.dataset.manifest import DataLedger, schema_hash
from zbk.system.clock import wall_ms

BEGIN_ATTEMPT_COUNT_MAX: Final = 8

__all__ = ["Aborted", "Collected", "DataSetClient", "DataSets", "LoadTicket", "Snapshot"]


class Aborted(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an abort."""

    state: LoadState | None  # of the load: COMMITTED if a commit came first; ``None``: unknown
    deleted_count: int  # ledgers


class DataSets:
    """The data sets of a client's cluster. ``password`` protects their ledgers."""

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
        self._committer = LoadCommitter(
            self._store, self._ledgers, self._garbage, now_ms, self._password_check
        )

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
        """Begin a load; create the data set if there is none with this name.

        ``stream`` and ``batch_id`` name a micro-batch: however often it is loaded, it is committed
        once. ``ttl_ms``: any client may abort a load that takes longer, by its own clock. Loads
        whose time is over are settled: their leftovers are deleted.

        ``load_id``, from ``new_load_id``: if the load of a micro-batch has no driver, each process
        that takes part begins it, with the same arguments. One of them begins it, and all get the
        same ticket. The id says when the load's time is over.

        Raises:
            InvalidOptionError: no data set can have this name, or no load these options.
            LoadAbortedError: the load of this ``load_id`` has ended.
            DataSetConflictError: an append to a data set whose ledgers have another password.
            BusyError: too many loads are known.
        """
        name = arguments.data_set_name(name)
        kind = arguments.member(LoadKind, "kind", kind)
        request = LoadRequest(
            kind=kind, who=who, ttl_ms=ttl_ms, stream=stream, batch_id=batch_id, load_id=load_id
        )
        request.check()
        for _ in range(BEGIN_ATTEMPT_COUNT_MAX):
            with suppress(NoSuchDataSetError):  # dropped meanwhile: it is created anew
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
        raise MetadataConflictError(
            data_set_path(name), f"others dropped it, {BEGIN_ATTEMPT_COUNT_MAX} times in a row"
        )

    def new_load_id(self, ttl_ms: int = TTL_MS) -> str:
        """Return an id for a load that has not begun."""
        return new_load_id(self._now_ms() + check_ttl_ms(ttl_ms), self._store.new_id())

    def check_options(self, **options: Unpack[LedgerOptions]) -> None:
        """Check the keywords of ``create_ledger`` before any ledger is created.

        Raises:
            InvalidOptionError, InvalidQuorumError: as ``create_ledger``.
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
        """Create a data ledger of a load; the keywords are those of ``Client.create_ledger``.

        Raises:
            ArgumentTypeError: there is a password among them; ``DataSets`` has it for all ledgers.
        """
        ticket = arguments.struct("ticket", ticket, LoadTicket)
        partition = arguments.integer("partition", partition, 0, arguments.NUMBER_MAX)
        attempt = arguments.integer("attempt", attempt, 0, arguments.NUMBER_MAX)
        return self._ledgers.create(ticket, partition, attempt, options)

    def commit(
        self, ticket: LoadTicket, schema: bytes, ledgers: Sequence[DataLedger], *, who: str = ""
    ) -> DataSet:
        """Make a load visible, as one version; return the present data set.

        Each ledger must be closed. Committing twice is the same as once. ``who`` replaces that of
        ``begin`` in the history.

        Raises:
            InvalidOptionError: a ledger is not closed, not the load's, or has another length.
            NoSuchLedgerError: a ledger was deleted by hand.
            NoSuchDataSetError: the data set was dropped.
            LoadAbortedError: the load was aborted; nothing of it is visible.
            DataSetConflictError: another load, schema or password conflicts; likewise. Or the
                load ended so long ago that its outcome is not known any more.
            MetadataConflictError: other loads were faster, again and again; commit again.
            MetadataUnavailableError: it may or may not be visible; commit again to know.
        """
        ticket = arguments.struct("ticket", ticket, LoadTicket)
        schema = arguments.payload(schema, "schema")
        ledgers = [arguments.struct("ledgers", one, DataLedger) for one in _listed(ledgers)]
        who = arguments.text("who", who, TEXT_SIZE_MAX)
        return self._committer.commit(ticket, schema, ledgers, who)

    def abort(self, ticket: LoadTicket) -> Aborted:
        """Ensure that a load never becomes visible, and delete its ledgers.

        A committed load stays as it is, even if its commit raised an error: see ``state``.

        Raises:
            MetadataUnavailableError: it may or may not have been aborted, or swept; abort again.
            UnauthorizedError, DamageError: it was aborted, and its ledgers are still there,
                because it is not known which ledgers the versions list.
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
            NoSuchDataSetError: there is no data set with this name.
        """
        return self._store.read(arguments.data_set_name(name))[0]

    def has_schema(self, name: str, schema: bytes) -> bool:
        """Return whether the last version has this schema; true if there is no version."""
        schema = arguments.payload(schema, "schema")
        try:
            current = self.history(name).current
        except NoSuchDataSetError:
            return True
        return current is None or current.schema_hash == schema_hash(schema)

    def loads(self, name: str) -> dict[str, Load]:
        """Return the open loads, and those that ended lately, by id.

        Raises:
            NoSuchDataSetError: there is no data set with this name.
        """
        return self._store.loads(name, self.history(name).data_set_id)

    def ticket(self, name: str, load_id: str) -> LoadTicket:
        """Return the ticket of a load that another process began, for example to abort it.

        Raises:
            NoSuchDataSetError: there is no data set with this name.
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
            NoSuchDataSetError: there is no data set with this name.
            NoSuchVersionError: it has no such version, or no version at all.
            UnauthorizedError: its ledgers have another password.
            CorruptRecordError: a manifest is damaged, or was deleted by hand.
        """
        if version is not None:
            version = _version(version)
        return read_snapshot(self._store, self._ledgers, arguments.data_set_name(name), version)

    # ------------------------------------------------------------------ tidying

    def drop_version(self, name: str, version: int) -> DataSet:
        """Remove a version that is not the last one; ``collect`` deletes the ledgers of it alone.

        Raises:
            NoSuchVersionError: there is no such version.
            DataSetConflictError: it is the last one.
        """
        return self._store.drop_version(arguments.data_set_name(name), _version(version))

    def drop(self, name: str) -> int:
        """Remove a data set and all of its ledgers; return the number of deleted ledgers.

        Open loads end with an error. If this call is interrupted, ``collect_all`` finds the
        remaining ledgers.

        Raises:
            NoSuchDataSetError: there is no data set with this name.
            BusyError: too many loads are open.
        """
        dropped = self._store.drop(arguments.data_set_name(name))
        return self._garbage.delete_all(dropped.data_set_id)

    def collect(self, name: str, *, is_dry_run: bool = False) -> Collected:
        """Delete the ledgers of a data set that no version lists and no open load may commit.

        Loads whose time is over are aborted first. ``is_dry_run``: report, and change nothing.

        Raises:
            NoSuchDataSetError: there is no data set with this name.
            UnauthorizedError, DamageError: its manifests cannot be read; nothing was deleted.
        """
        name = arguments.data_set_name(name)
        is_dry_run = arguments.flag("is_dry_run", is_dry_run)
        return self._garbage.collect(name, is_dry_run=is_dry_run)

    def collect_all(self, *, is_dry_run: bool = False) -> Iterator[Collected]:
        """Collect each data set, and the remaining ledgers of dropped ones. As ``collect``."""
        return self._garbage.collect_all(is_dry_run=arguments.flag("is_dry_run", is_dry_run))

    def list(self) -> builtins.list[str]:
        """Return the names of all data sets, sorted."""
        return self._store.list()

    # ------------------------------------------------------------------ private

    def _made(self, name: str) -> DataSet:
        """Return a data set; create it if there is none."""
        try:
            return self._store.read(name)[0]
        except NoSuchDataSetError:
            self._store.create(name, self._now_ms())
            return self._store.read(name)[0]

    def _begun(self, name: str, load: Load) -> Load:
        """Return a load as the process that began it first recorded it."""
        found = self._store.read_load(name, load.data_set_id, load.load_id)
        if found is None or found[0].state is not LoadState.OPEN:
            raise LoadAbortedError(name, load.load_id)
        return found[0]

    def _password_check(self, data_set_id: str) -> str:
        return password_check(self._password, data_set_id)


def _version(value: object) -> int:
    return arguments.integer("version", value, 1, arguments.NUMBER_MAX)


def _listed(ledgers: object) -> list[object]:
    if isinstance(ledgers, Iterable) and not isinstance(ledgers, msgspec.Struct):
        return list(ledgers)
    why = "give a sequence of DataLedger"
    raise ArgumentTypeError("ledgers", type(ledgers).__name__, why)
