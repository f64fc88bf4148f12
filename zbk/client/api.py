"""The client: what ``zbk.connect`` returns.

Source: BookKeeper's ``BookKeeper`` client API (``CreateBuilder``, ``OpenBuilder``,
``DeleteBuilder``); names as BookKeeper has them.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

import pykka

from zbk.client import arguments
from zbk.client.cluster.directory import BookieDirectory
from zbk.client.cluster.metadata_actor import MetadataActors, MetadataTask
from zbk.client.cluster.placer import BookiePlacer
from zbk.client.cluster.requests import Requests
from zbk.client.log.calls import LogCalls
from zbk.client.operations.garbage_collection import (
    CompactionName,
    collect_garbage,
    compaction_name,
)
from zbk.client.operations.scrub import ask_scrub, follow_scrub
from zbk.client.read.confirmed_look import MetadataOutcome
from zbk.client.read.lac_watches import LacWatches
from zbk.client.read.ledger_reader import LedgerReader, ReaderSetup
from zbk.client.read.tail_body import LedgerNews
from zbk.client.read.tail_group import TailGroup
from zbk.client.write.ledger_creation import LedgerCreator, LedgerOptions, plan_ledger
from zbk.config import ClientConfig, ClientOptions
from zbk.config.sources import convert
from zbk.durability.level import level_of
from zbk.errors import (
    ClientClosedError,
    ForkedProcessError,
    InvalidOptionError,
    LedgerClosedError,
    NotEnoughBookiesError,
    TooManyOpenFilesError,
    UnauthorizedError,
    UnsupportedLedgerError,
    ZbkError,
)
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.logs import LogStore
from zbk.metadata.records.underreplication import UnderreplicatedLedger, UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import BookieRegistration
from zbk.protocol.entry.digest import digest_function, is_same_secret, ledger_key, password_digest
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.placement import POLICIES
from zbk.system.context import read_context
from zbk.system.deadline import within
from zbk.system.descriptors import has_descriptors
from zbk.system.process_id import process_id
from zbk.system.ticker import Ticker
from zbk.transport.dealer import BookiePool
from zbk.transport.events import DealerOptions
from zbk.wire.messages import BookieInfo, GarbageStatus, GetBookieInfo, ScrubStatus

if TYPE_CHECKING:
    from zbk.client.write.ledger_writer import LedgerWriter
    from zbk.client.write.open_writers import OpenWriters

METADATA_VARIABLE: Final = "ZBK_METADATA"
SOFTWARE: Final = "zbk-python"
URI_SIZE_MAX: Final = 4_096
LEDGER_COUNT_MAX: Final = 100_000
"""Ledgers that one call makes."""


DESCRIPTOR_COUNT: Final = 32
"""Those that have to be left for a client: metadata store, ZeroMQ's threads, a first connection."""


def connect(uri: str | None = None, **options: Unpack[ClientOptions]) -> "Client":
    """Connect to a cluster.

    ``uri`` is the address of its metadata: ``zk://host:port[,host:port]/root`` or, on one host,
    ``sqlite:///path``. Without it ``$ZBK_METADATA`` counts, then the cluster that ``zbk up`` runs.
    ``options`` are the fields of ``zbk.config.ClientConfig``; sizes may be texts like ``"1 MiB"``
    and durations like ``"2s"``.

    Raises:
        InvalidOptionError: an unknown option, a bad address, or none at all.
        MetadataUnavailableError: there is no answer at that address within ``connect_timeout_ms``
            (5 s), which is for all steps together.
        TooManyOpenFilesError: the process has no file descriptors left for a client.

    Example:
        >>> import zbk
        >>> with zbk.connect() as client:                        # doctest: +SKIP
        ...     with client.create_ledger() as ledger:
        ...         ledger.append(b"hello")
        0
    """
    if uri is not None:
        uri = arguments.text("uri", uri, URI_SIZE_MAX)
    config = convert(ClientConfig, options)
    address = uri or os.environ.get(METADATA_VARIABLE) or read_context()
    if not address:
        raise InvalidOptionError(
            "metadata",
            "",
            f"no cluster given: start one with `zbk up`, or set {METADATA_VARIABLE}, "
            "or give its address",
        )
    if not has_descriptors(DESCRIPTOR_COUNT):
        raise TooManyOpenFilesError(f"cannot connect to {address}")
    return Client(address, config)


_open_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close every client that the application has left open.

    Its threads would go on beside the end of the interpreter, and fail there with tracebacks. What
    is pending fails with ``ClientClosedError``.
    """
    for client in list(_open_clients):
        with suppress(ForkedProcessError):  # that process closes it
            client.close()


class Client(LogCalls):
    """A connection to a cluster. Any thread may use it; close it, or use it as a context manager.

    A client belongs to the process that made it: in a forked child every call raises
    ``ForkedProcessError``.
    """

    def __init__(self, uri: str, config: ClientConfig) -> None:
        uri = arguments.text("uri", uri, URI_SIZE_MAX)
        self._pid = process_id()
        self._config = arguments.instance("config", config, ClientConfig)
        self._is_closed = False
        self._lock = threading.Lock()
        with within(config.connect_timeout_ms / 1000):
            self._connect(uri)

    def _connect(self, uri: str) -> None:
        config = self._config
        self._store: MetadataStore = open_store(
            uri,
            timeout_s=config.connect_timeout_ms / 1000,
            session_timeout_ms=config.session_timeout_ms,
            must_exist=True,
        )
        try:
            self._ledgers = LedgerStore(self._store)
            self._tasks = UnderreplicationStore(self._store)
            self._logs = LogStore(self._store)
            self._data_sets = DataSetStore(self._store)
            self._pool = BookiePool(
                DealerOptions(
                    instance_id(self._store),
                    SOFTWARE,
                    config.connect_timeout_ms,
                    config.connection_idle_ms,
                )
            )
            try:
                registry = BookieRegistry(self._store)
                self._directory = BookieDirectory(registry, self._pool.set_addresses)
            except BaseException:
                self._pool.close()
                raise
        except BaseException:
            self._store.close()
            raise
        self._requests = Requests(self._pool, config.request_timeout_ms)
        self._lac_watches = LacWatches(self._requests, self._pool.call_soon)
        self._metadata_actors = MetadataActors()
        self._ticker = Ticker("zbk-client-ticker")
        self._placer = BookiePlacer(
            self._directory, POLICIES[config.placement], config.avoid_failed_ms
        )
        self._creator = LedgerCreator(self._ledgers, self._placer, config.connect_timeout_ms)
        self._made_writers: OpenWriters | None = None
        _open_clients.add(self)

    @property
    def _writers(self) -> "OpenWriters":
        """The writers, which are loaded and made with the first one: half of a client's code."""
        from zbk.client.write.open_writers import OpenWriters, WriterGround

        with self._lock:
            if self._is_closed:
                raise ClientClosedError
            if self._made_writers is None:
                self._made_writers = OpenWriters(
                    WriterGround(
                        config=self._config,
                        pool=self._pool,
                        ledgers=self._ledgers,
                        tasks=self._tasks,
                        placer=self._placer,
                        metadata_actors=self._metadata_actors,
                        ticker=self._ticker,
                        check_usable=self.check_usable,
                    )
                )
                self._directory.when_writable_change(self._made_writers.writable_changed)
            return self._made_writers

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<zbk.Client {self._store.address} {state}>"

    @property
    def config(self) -> ClientConfig:
        """The options that it was connected with."""
        return self._config

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def metadata_uri(self) -> str:
        """The address of the cluster's metadata."""
        return self._store.address

    def check_usable(self) -> None:
        """Raise if this client is closed, or belongs to another process.

        Raises:
            ForkedProcessError: this is a forked child of the process that connected.
            ClientClosedError: it was closed.
        """
        pid = process_id()
        if pid != self._pid:
            raise ForkedProcessError(self._pid, pid)
        if self._is_closed:
            raise ClientClosedError

    def close(self) -> None:
        """End everything; writers that are still open are abandoned, not closed. Twice is fine."""
        if process_id() != self._pid:
            raise ForkedProcessError(self._pid, process_id())
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._made_writers is not None:
            self._made_writers.stop_all()
        self._ticker.stop()
        self._directory.close()
        self._pool.close()
        self._metadata_actors.stop()
        self._store.close()

    # ------------------------------------------------------------------ ledgers to write

    def create_ledger(self, **options: Unpack[LedgerOptions]) -> "LedgerWriter":
        """Make a ledger and return its writer.

        Each entry goes to ``write_quorum_size`` (3) of ``ensemble_size`` (3) bookies and is
        acknowledged when ``ack_quorum_size`` (2) have it. Further keywords: ``ledger_type``
        (``PD_JOURNAL``), ``digest_type`` (``XXH3``), ``password``, ``custom_metadata``.

        Raises:
            InvalidQuorumError: the sizes do not fit together.
            UnsupportedLedgerError: a VD ledger cannot be striped.
            NotEnoughBookiesError: fewer bookies are writable than the ensemble needs.
        """
        plan = plan_ledger(options)
        self.check_usable()
        return self._writers.start(self._creator.create(plan, has_writer=True), plan.password)

    def create_ledgers(self, count: int, **options: Unpack[LedgerOptions]) -> "list[LedgerWriter]":
        """Make many ledgers of one kind at once, and return their writers.

        For loaders that need thousands: a step of the metadata store makes 128 of them. Each ledger
        has an ensemble of its own. The keywords and errors are those of ``create_ledger``; after an
        error none of the ledgers is left, unless the store cannot be reached or the client is being
        closed.

        Example:
            >>> import zbk
            >>> with zbk.connect() as client:  # doctest: +SKIP
            ...     writers = client.create_ledgers(1_000, ack_quorum_size=2)
            ...     futures = [writer.append_async(b"hello") for writer in writers]
            ...     client.close_all(writers)
        """
        count = arguments.integer("count", count, 1, LEDGER_COUNT_MAX)
        plan = plan_ledger(options)
        self.check_usable()
        return self._writers.start_all(self._creator.create_many(plan, count), plan.password)

    def close_all(
        self, writers: "Iterable[LedgerWriter]", *, timeout: float | None = None
    ) -> list[int]:
        """Close many ledgers at the same time; return the last entry id of each, in order.

        Each is closed as by ``LedgerWriter.close``, and all of them within ``timeout`` (seconds).
        All are tried: the error of the first one that was not closed is raised, with a note that
        names the others. Closing again closes what is left.

        Raises:
            ZbkError: as ``LedgerWriter.close``.
        """
        from zbk.client.write.ledger_writer import LedgerWriter, close_all

        default_s = self._config.default_timeout_ms / 1000
        timeout_s = default_s if timeout is None else arguments.seconds(timeout)
        opened = arguments.instances("writers", writers, LedgerWriter)
        self.check_usable()
        return close_all(opened, timeout_s)

    def reserve_ledger(self, **options: Unpack[LedgerOptions]) -> int:
        """Make a ledger without a writer and return its id: ``open_for_append`` gives it one.

        For a writer in another process than the one that decides about the ledger. The keywords
        are those of ``create_ledger``.
        """
        plan = plan_ledger(options)
        self.check_usable()
        return self._creator.create(plan, has_writer=False).ledger_id

    def open_for_append(self, ledger_id: int, password: bytes = b"") -> "LedgerWriter":
        """Become the one writer of a reserved ledger.

        Exactly one caller ever can: a compare-and-swap in the metadata decides.

        Raises:
            IllegalTransitionError: it has, or had, a writer.
            LedgerClosedError: it is closed.
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        self.check_usable()

        def claim(current: LedgerMetadata) -> LedgerMetadata:
            self._check_password(current, password)
            if current.state is not LedgerState.OPEN:
                raise LedgerClosedError(ledger_id, current.last_entry_id)
            return current.with_writer()

        metadata, _version = self._ledgers.update(ledger_id, claim)
        return self._writers.start(metadata, password)

    def close_reserved_ledger(self, ledger_id: int, password: bytes = b"") -> None:
        """Close a ledger that never had a writer, as empty.

        Raises:
            LedgerClosedError: it is closed.
            UnsupportedLedgerError: it has a writer: only that one closes it.
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        self.check_usable()

        def seal(current: LedgerMetadata) -> LedgerMetadata:
            self._check_password(current, password)
            if current.is_closed:
                raise LedgerClosedError(ledger_id, current.last_entry_id)
            if current.has_writer:
                raise UnsupportedLedgerError(
                    f"ledger {ledger_id} has a writer, and its writer closes it; if that one is "
                    f"gone, recover the ledger: `zbk ledger recover {ledger_id}`"
                )
            return current.with_closed(NO_ENTRY, 0)

        self._ledgers.update(ledger_id, seal)

    # ------------------------------------------------------------------ ledgers to read

    def open_ledger(self, ledger_id: int, password: bytes = b"") -> LedgerReader:
        """Return a reader of a ledger. It only looks: it never fences, and hurts no writer.

        Raises:
            NoSuchLedgerError: there is none.
            UnauthorizedError: the password is another one.
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        self.check_usable()
        metadata, _version = self._ledgers.read(ledger_id)
        self._check_password(metadata, password)
        return self._reader(metadata, password)

    def tail_group(self) -> TailGroup:
        """Return a group that follows many ledgers in one thread; add their readers to it."""
        self.check_usable()
        return TailGroup(self.check_usable)

    def recover_ledger(
        self, ledger_id: int, password: bytes = b"", *, timeout: float | None = None
    ) -> LedgerReader:
        """Close a ledger in the place of its writer, and return a reader of all that is in it.

        For a writer that is gone, or is to be stopped: its bookies are fenced, so it can add
        nothing more. Every entry that was acknowledged is in the ledger afterwards; of those that
        were not, each one may be. Any number of clients may recover a ledger at the same time; all
        see the same end. A closed ledger is only opened. ``timeout``, in seconds, is for
        all steps together.

        Raises:
            NoSuchLedgerError: there is none.
            UnauthorizedError: the password is another one; nothing was fenced.
            LedgerRecoveryError: too few bookies say what they have; try again later.
            NotEnoughBookiesError: too few bookies take the entries that were found; as above.

        Example:
            >>> import zbk
            >>> with zbk.connect() as client, client.recover_ledger(7) as ledger:  # doctest: +SKIP
            ...     ledger.last_add_confirmed
            41
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        default_s = self._config.default_timeout_ms / 1000
        timeout_s = default_s if timeout is None else arguments.seconds(timeout)
        self.check_usable()
        with within(timeout_s):
            return self._recover_ledger(ledger_id, password, timeout_s)

    def _recover_ledger(self, ledger_id: int, password: bytes, timeout_s: float) -> LedgerReader:
        from zbk.client.operations.recovery_pump import RecoveryPump, RecoverySetup
        from zbk.protocol.ledger.changes import begin_recovery

        def begin(current: LedgerMetadata) -> LedgerMetadata | None:
            self._check_password(current, password)
            return begin_recovery(current)

        metadata, _version = self._ledgers.update(ledger_id, begin)
        if not metadata.is_closed:
            setup = RecoverySetup(
                metadata=metadata,
                ledger_key=ledger_key(password, ledger_id),
                digest=digest_function(metadata.digest_type, password, ledger_id),
                requests=self._requests,
                placer=self._placer,
                ledgers=self._ledgers,
                tasks=self._tasks,
                config=self._config,
                check_usable=self.check_usable,
            )
            metadata = RecoveryPump(setup).run(timeout_s)
        return self._reader(metadata, password)

    def _reader(self, metadata: LedgerMetadata, password: bytes) -> LedgerReader:
        ledger_id = metadata.ledger_id

        def refresh() -> LedgerMetadata:
            return self._ledgers.read(ledger_id, is_fresh=True)[0]

        def refresh_later(done: Callable[[MetadataOutcome], None]) -> None:
            with suppress(pykka.ActorDeadError):  # the client was closed: its readers look, too
                self._metadata_actors.tell(ledger_id, MetadataTask(refresh, done))

        return LedgerReader(
            ReaderSetup(
                metadata=metadata,
                refresh=refresh,
                refresh_later=refresh_later,
                news=LedgerNews(self._ledgers, self._metadata_actors, ledger_id),
                ledger_key=ledger_key(password, ledger_id),
                digest=digest_function(metadata.digest_type, password, ledger_id),
                requests=self._requests,
                watches=self._lac_watches,
                config=self._config,
                check_usable=self.check_usable,
            )
        )

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """Return what the metadata store knows of a ledger.

        Raises:
            NoSuchLedgerError: there is none.
        """
        ledger_id = arguments.ledger_id(ledger_id)
        self.check_usable()
        return self._ledgers.read(ledger_id)[0]

    def get_underreplicated(self, ledger_id: int) -> UnderreplicatedLedger | None:
        """Return what is reported to be missing of a ledger; ``None``: nothing is.

        A ledger that is to be checked is among them, as after a recovery; one that nobody can
        repair has the reason in ``unrepairable``.
        """
        ledger_id = arguments.ledger_id(ledger_id)
        self.check_usable()
        found = self._tasks.read(ledger_id)
        return self._tasks.read_unrepairable(ledger_id) if found is None else found[0]

    def list_ledgers(self) -> Iterator[int]:
        """Yield the ids of all ledgers, ascending."""
        self.check_usable()
        return self._ledgers.list()

    def next_ledger_id(self) -> int:
        """Return an id below which every ledger was made before this call."""
        self.check_usable()
        return self._ledgers.next_ledger_id()

    @property
    def data_set_store(self) -> DataSetStore:
        """The data sets of the cluster, for ``zbk.DataSets``."""
        self.check_usable()
        return self._data_sets

    def delete_ledger(self, ledger_id: int) -> None:
        """Delete a ledger's metadata; bookies drop its entries later.

        Raises:
            NoSuchLedgerError: there is none.
        """
        ledger_id = arguments.ledger_id(ledger_id)
        self.check_usable()
        self._ledgers.delete(ledger_id)

    def sync_ledger(self, ledger_id: int, password: bytes = b"") -> int:
        """Ask the bookies of an open ledger to fsync; return the last id that is durable.

        For a VD ledger whose writer is elsewhere or gone; readers then see as far. A closed ledger
        is durable to its end.

        Raises:
            CannotAdvanceError: too few bookies answered to say how far it is durable, or the ledger
                is being recovered: then its end is not known before it is closed.
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        self.check_usable()
        metadata, _version = self._ledgers.read(ledger_id)
        self._check_password(metadata, password)
        if metadata.last_entry_id is not None:
            return metadata.last_entry_id
        if not level_of(metadata.ledger_type).has_sync_cursor:
            with self.open_ledger(ledger_id, password) as reader:
                return reader.last_add_confirmed
        from zbk.client.operations.outside_sync_pump import sync_from_outside

        return sync_from_outside(metadata, ledger_key(password, ledger_id), self._requests)

    def _check_password(self, metadata: LedgerMetadata, password: bytes) -> None:
        mine = password_digest(password, metadata.ledger_id)
        if not is_same_secret(mine, metadata.password_digest):
            raise UnauthorizedError(metadata.ledger_id)

    # ------------------------------------------------------------------ bookies

    def list_bookies(self) -> list[BookieRegistration]:
        """Return the registered bookies, by id."""
        self.check_usable()
        return self._directory.registrations()

    def bookie_info(self, bookie_id: str) -> BookieInfo:
        """Ask a bookie about itself.

        Raises:
            BookieUnavailableError: it is not there.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        self.check_usable()
        outcome = self._requests.ask(bookie_id, GetBookieInfo(request_id=0)).outcome
        if isinstance(outcome, ZbkError):
            raise outcome
        if not isinstance(outcome, BookieInfo):
            raise NotEnoughBookiesError(1, 0, f"bookie {bookie_id} answered something else")
        return outcome

    def collect_garbage(
        self, bookie_id: str, *, compaction: CompactionName = "", timeout: float = 600.0
    ) -> GarbageStatus:
        """Ask a bookie to drop what was deleted; return what it did. ``timeout`` in seconds.

        ``compaction`` "minor" or "major": compact entry logs of which less is live than that kind's
        threshold, too.

        Raises:
            BookieUnavailableError: it is not there.
            RequestTimeoutError: it is still at it.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        compaction = compaction_name(compaction)
        timeout_s = arguments.seconds(timeout)
        self.check_usable()
        return collect_garbage(self._requests, bookie_id, timeout_s, compaction)

    def scrub(self, bookie_id: str, *, is_pass_wanted: bool = True) -> ScrubStatus:
        """Ask a bookie to begin to read all its files for damage; return how it goes, at once.

        Without ``is_pass_wanted`` it is only asked.

        Raises:
            BookieUnavailableError: it is not there.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        is_pass_wanted = arguments.flag("is_pass_wanted", is_pass_wanted)
        self.check_usable()
        return ask_scrub(self._requests, bookie_id, is_pass_wanted=is_pass_wanted)

    def follow_scrub(
        self,
        bookie_id: str,
        begun: ScrubStatus,
        *,
        timeout: float,
        tell: Callable[[ScrubStatus], None] = lambda _status: None,
    ) -> ScrubStatus:
        """Wait for the pass that ``scrub`` began; return what it found. ``timeout`` in seconds.

        Raises:
            BookieUnavailableError: it is not there, or has restarted, and the pass is lost.
            RequestTimeoutError: it is still at it.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        begun = arguments.instance("begun", begun, ScrubStatus)
        timeout_s = arguments.seconds(timeout)
        tell = arguments.function("tell", tell)
        self.check_usable()
        return follow_scrub(self._requests, bookie_id, begun, timeout_s, tell)
