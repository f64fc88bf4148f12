"""The client: what ``zbk.connect`` returns.

Source: BookKeeper's ``BookKeeper`` client API (``CreateBuilder``, ``OpenBuilder``,
``DeleteBuilder``); names as BookKeeper has them.
"""

import itertools
import os
import random
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

import pykka

from zbk.client.directory import BookieDirectory
from zbk.client.ledger_reader import LedgerReader, ReaderSetup
from zbk.client.ledger_writer import LedgerWriter
from zbk.client.mailbox import AppendMailbox
from zbk.client.metadata_actor import MetadataActor
from zbk.client.requests import Requests
from zbk.client.writer_actor import TICK_MS, Drain, Tick, WriterActor, WriterSetup
from zbk.config import ClientConfig, convert
from zbk.durability.level import level_of
from zbk.durability.synced_lac import SyncedLac
from zbk.errors import (
    CannotAdvanceError,
    ClientClosedError,
    ForkedProcessError,
    InvalidOptionError,
    LedgerClosedError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnauthorizedError,
    UnsupportedLedgerError,
    ZbkError,
)
from zbk.metadata.bookies import BookieRegistry
from zbk.metadata.connect import open_store
from zbk.metadata.instance import instance_id
from zbk.metadata.ledgers import LedgerStore
from zbk.metadata.store import MetadataStore
from zbk.metadata.values import BookieRegistration
from zbk.protocol.digest import digest_function, is_same_secret, ledger_key, password_digest
from zbk.protocol.ledger_metadata import Fragment, LedgerMetadata
from zbk.protocol.placement import choose_ensemble
from zbk.protocol.quorum import Quorum
from zbk.protocol.words import NO_ENTRY, DigestType, LedgerState, LedgerType
from zbk.protocol.writer import WriterCore, WriterLimits
from zbk.system.clock import wall_ms
from zbk.system.context import read_context
from zbk.system.ticker import Ticker
from zbk.transport.dealer import BookiePool
from zbk.transport.news import DealerOptions
from zbk.wire.messages import BookieInfo, GetBookieInfo, Sync, SyncAnswer, WriteLac

METADATA_VARIABLE: Final = "ZBK_METADATA"
CONNECT_WAIT_MS_MAX: Final = 2_000
"""How long a new writer waits for the slowest bookie of its ensemble to be connected."""

SOFTWARE: Final = "zbk-python"


def connect(uri: str | None = None, **options: object) -> "Client":
    """Connect to a cluster.

    ``uri`` is the address of its metadata: ``zk://host:port[,host:port]/root`` or, on one host,
    ``sqlite:///path``. Without it ``$ZBK_METADATA`` counts, then the cluster that ``zbk up`` runs.
    ``options`` are the fields of ``zbk.config.ClientConfig``; sizes may be texts like ``"1 MiB"``
    and durations like ``"2s"``.

    Raises:
        InvalidOptionError: an unknown option, a bad address, or none at all.
        MetadataUnavailableError: nobody answers at that address.

    Example:
        >>> import zbk
        >>> with zbk.connect() as client:                        # doctest: +SKIP
        ...     with client.create_ledger() as ledger:
        ...         ledger.append(b"hello")
        0
    """
    config = convert(ClientConfig, options)
    address = uri or os.environ.get(METADATA_VARIABLE) or read_context()
    if not address:
        raise InvalidOptionError(
            "metadata",
            "",
            f"no cluster given: start one with `zbk up`, or set {METADATA_VARIABLE}, "
            "or give its address",
        )
    return Client(address, config)


class Client:
    """A connection to a cluster. Any thread may use it; close it, or use it as a context manager.

    A client belongs to the process that made it: in a forked child every call raises
    ``ForkedProcessError``.
    """

    def __init__(self, uri: str, config: ClientConfig) -> None:
        self._pid = os.getpid()
        self._config = config
        self._is_closed = False
        self._lock = threading.Lock()
        self._writers: dict[int, pykka.ActorRef[WriterActor]] = {}
        self._serial = itertools.count()
        timeout_s = config.connect_timeout_ms / 1000
        self._store: MetadataStore = open_store(
            uri, timeout_s=timeout_s, session_timeout_ms=config.session_timeout_ms
        )
        try:
            self._ledgers = LedgerStore(self._store)
            registry = BookieRegistry(self._store)
            options = DealerOptions(instance_id(self._store), SOFTWARE, config.connect_timeout_ms)
        except BaseException:
            self._store.close()
            raise
        self._pool = BookiePool(options)
        self._directory = BookieDirectory(registry, self._pool.set_addresses)
        self._requests = Requests(self._pool, config.request_timeout_ms)
        self._metadata_actor = MetadataActor.start()
        self._ticker = Ticker("zbk-client-ticker")

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<zbk.Client {self._store.address} {state}>"

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
        pid = os.getpid()
        if pid != self._pid:
            raise ForkedProcessError(self._pid, pid)
        if self._is_closed:
            raise ClientClosedError

    def close(self) -> None:
        """End everything; writers that are still open are abandoned, not closed. Twice is fine."""
        if os.getpid() != self._pid:
            raise ForkedProcessError(self._pid, os.getpid())
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            writers = list(self._writers.values())
        for writer in writers:
            writer.stop()
        self._ticker.stop()
        self._directory.close()
        self._pool.close()
        self._metadata_actor.stop()
        self._store.close()

    # ------------------------------------------------------------------ ledgers to write

    def create_ledger(
        self,
        *,
        ensemble_size: int = 3,
        write_quorum_size: int = 3,
        ack_quorum_size: int = 2,
        ledger_type: LedgerType | str = LedgerType.PD_JOURNAL,
        digest_type: DigestType | str = DigestType.XXH3,
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] | None = None,
    ) -> LedgerWriter:
        """Make a ledger and return its writer.

        Each entry goes to ``write_quorum_size`` of ``ensemble_size`` bookies and is acknowledged
        when ``ack_quorum_size`` have it.

        Raises:
            InvalidQuorumError: the sizes do not fit together.
            UnsupportedLedgerError: a VD ledger can not be striped.
            NotEnoughBookiesError: fewer bookies are writable than the ensemble needs.
        """
        self.check_usable()
        metadata = self._create(
            Quorum(ensemble_size, write_quorum_size, ack_quorum_size),
            LedgerType(_member(LedgerType, "ledger_type", ledger_type)),
            DigestType(_member(DigestType, "digest_type", digest_type)),
            password,
            custom_metadata,
            has_writer=True,
        )
        return self._writer(metadata, password)

    def reserve_ledger(
        self,
        *,
        ensemble_size: int = 3,
        write_quorum_size: int = 3,
        ack_quorum_size: int = 2,
        ledger_type: LedgerType | str = LedgerType.PD_JOURNAL,
        digest_type: DigestType | str = DigestType.XXH3,
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] | None = None,
    ) -> int:
        """Make a ledger without a writer and return its id: ``open_for_append`` gives it one.

        For a writer in another process than the one that decides about the ledger.
        """
        self.check_usable()
        metadata = self._create(
            Quorum(ensemble_size, write_quorum_size, ack_quorum_size),
            LedgerType(_member(LedgerType, "ledger_type", ledger_type)),
            DigestType(_member(DigestType, "digest_type", digest_type)),
            password,
            custom_metadata,
            has_writer=False,
        )
        return metadata.ledger_id

    def open_for_append(self, ledger_id: int, password: bytes = b"") -> LedgerWriter:
        """Become the one writer of a reserved ledger.

        Exactly one caller ever can: a compare-and-swap in the metadata decides.

        Raises:
            IllegalTransitionError: it has, or had, a writer.
            LedgerClosedError: it is closed.
        """
        self.check_usable()

        def claim(current: LedgerMetadata) -> LedgerMetadata:
            self._check_password(current, password)
            if current.state is not LedgerState.OPEN:
                raise LedgerClosedError(ledger_id, current.last_entry_id)
            return current.with_writer()

        metadata, _version = self._ledgers.update(ledger_id, claim)
        return self._writer(metadata, password)

    def close_reserved_ledger(self, ledger_id: int, password: bytes = b"") -> None:
        """Close a ledger that never had a writer, as empty.

        Raises:
            LedgerClosedError: it is closed.
            UnsupportedLedgerError: it has a writer: only that one closes it.
        """
        self.check_usable()

        def seal(current: LedgerMetadata) -> LedgerMetadata:
            self._check_password(current, password)
            if current.is_closed:
                raise LedgerClosedError(ledger_id, current.last_entry_id)
            if current.has_writer:
                raise UnsupportedLedgerError(
                    f"ledger {ledger_id} has a writer, and its writer closes it"
                )
            return current.with_closed(NO_ENTRY, 0)

        self._ledgers.update(ledger_id, seal)

    def _create(
        self,
        quorum: Quorum,
        ledger_type: LedgerType,
        digest_type: DigestType,
        password: bytes,
        custom_metadata: Mapping[str, bytes] | None,
        *,
        has_writer: bool,
    ) -> LedgerMetadata:
        level_of(ledger_type).check_quorum(quorum)
        ensemble = self._choose_ensemble(quorum)
        token = uuid4().hex
        created_ms = wall_ms()
        custom = dict(custom_metadata or {})

        def make(ledger_id: int) -> LedgerMetadata:
            return LedgerMetadata(
                ledger_id=ledger_id,
                ensemble_size=quorum.ensemble_size,
                write_quorum_size=quorum.write_size,
                ack_quorum_size=quorum.ack_size,
                ledger_type=ledger_type,
                digest_type=digest_type,
                password_digest=password_digest(password, ledger_id),
                fragments=(Fragment(0, ensemble),),
                created_ms=created_ms,
                creation_token=token,
                has_writer=has_writer,
                custom_metadata=custom,
            )

        metadata, _version = self._ledgers.create(make)
        return metadata

    def _choose_ensemble(self, quorum: Quorum) -> tuple[str, ...]:
        timeout_s = self._config.connect_timeout_ms / 1000
        writable = self._directory.wait_for_writable(quorum.ensemble_size, timeout_s)
        random.shuffle(writable)
        return choose_ensemble(writable, quorum.ensemble_size)

    def _writer(self, metadata: LedgerMetadata, password: bytes) -> LedgerWriter:
        config = self._config
        ledger_id = metadata.ledger_id
        core = WriterCore(
            ledger_id,
            metadata.quorum,
            level_of(metadata.ledger_type),
            ensemble=metadata.last_fragment.bookies,
            digest_type=metadata.digest_type,
            digest=digest_function(metadata.digest_type, password, ledger_id),
            limits=WriterLimits(
                window_size=config.window_size,
                batch_size_max=config.batch_size_max,
                batch_count_max=config.batch_count_max,
                quorum_grace_ms=config.quorum_grace_ms,
            ),
        )
        serial = next(self._serial)
        reference: list[pykka.ActorRef[WriterActor]] = []

        def tick() -> None:
            _tell(reference[0], Tick())

        def forget() -> None:
            self._ticker.cancel(tick)
            with self._lock:
                self._writers.pop(serial, None)

        mailbox = AppendMailbox(config.pending_size_max, lambda: _tell(reference[0], Drain()))
        setup = WriterSetup(
            metadata=metadata,
            ledger_key=ledger_key(password, ledger_id),
            core=core,
            mailbox=mailbox,
            pool=self._pool,
            ledgers=self._ledgers,
            metadata_actor=self._metadata_actor,
            request_timeout_ms=config.request_timeout_ms,
            condition=threading.Condition(),
            connected=threading.Event(),
        )
        reference.append(WriterActor.start(setup, forget))
        self._ticker.every(TICK_MS, tick)
        with self._lock:
            self._writers[serial] = reference[0]
        # entries that an ack quorum has before the last bookie is connected would miss there
        setup.connected.wait(min(config.connect_timeout_ms, CONNECT_WAIT_MS_MAX) / 1000)
        return LedgerWriter(
            metadata,
            core,
            mailbox,
            setup.condition,
            reference[0],
            entry_size_max=config.entry_size_max,
            default_timeout_s=config.default_timeout_ms / 1000,
            check_usable=self.check_usable,
        )

    # ------------------------------------------------------------------ ledgers to read

    def open_ledger(self, ledger_id: int, password: bytes = b"") -> LedgerReader:
        """Return a reader of a ledger. It only looks: it never fences, and hurts no writer.

        Raises:
            NoSuchLedgerError: there is none.
            UnauthorizedError: the password is another one.
        """
        self.check_usable()
        metadata, _version = self._ledgers.read(ledger_id)
        self._check_password(metadata, password)
        return LedgerReader(
            ReaderSetup(
                metadata=metadata,
                refresh=lambda: self._ledgers.read(ledger_id)[0],
                ledger_key=ledger_key(password, ledger_id),
                digest=digest_function(metadata.digest_type, password, ledger_id),
                requests=self._requests,
                config=self._config,
                check_usable=self.check_usable,
            )
        )

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """Return what the metadata store knows of a ledger.

        Raises:
            NoSuchLedgerError: there is none.
        """
        self.check_usable()
        return self._ledgers.read(ledger_id)[0]

    def list_ledgers(self) -> Iterator[int]:
        """Yield the ids of all ledgers, ascending."""
        self.check_usable()
        return self._ledgers.list()

    def delete_ledger(self, ledger_id: int) -> None:
        """Delete a ledger's metadata; bookies drop its entries later.

        Raises:
            NoSuchLedgerError: there is none.
        """
        self.check_usable()
        self._ledgers.delete(ledger_id)

    def sync_ledger(self, ledger_id: int, password: bytes = b"") -> int:
        """Ask the bookies of an open ledger to fsync; return the last id that is durable.

        For a VD ledger whose writer is elsewhere or gone; readers then see as far. A closed ledger
        is durable to its end.

        Raises:
            CannotAdvanceError: too few bookies answered to say how far it is durable.
        """
        self.check_usable()
        metadata, _version = self._ledgers.read(ledger_id)
        self._check_password(metadata, password)
        if metadata.last_entry_id is not None:
            return metadata.last_entry_id
        if not level_of(metadata.ledger_type).has_sync_cursor:
            with self.open_ledger(ledger_id, password) as reader:
                return reader.last_add_confirmed
        return self._sync_from_outside(metadata, ledger_key(password, ledger_id))

    def _sync_from_outside(self, metadata: LedgerMetadata, key: bytes) -> int:
        """Sync, and tell the LAC that follows: it lifts cursors over holes, so until it rests."""
        ledger_id, bookies = metadata.ledger_id, metadata.last_fragment.bookies
        synced = SyncedLac(metadata.quorum)
        while True:
            lac = synced.lac
            request = Sync(request_id=0, ledger_id=ledger_id, ledger_key=key, lac=lac)
            replies = self._requests.ask_all(bookies, request)
            failures: list[str] = []
            for slot, bookie_id in enumerate(bookies):
                outcome = replies[bookie_id].outcome
                if isinstance(outcome, SyncAnswer):
                    synced.update(slot, outcome.incarnation, outcome.last_add_synced)
                elif not isinstance(outcome, NoSuchLedgerError):
                    failures.append(str(outcome))
            if len(bookies) - len(failures) < metadata.ack_quorum_size:
                raise CannotAdvanceError(ledger_id, lac, lac + 1, "; ".join(failures))
            if synced.lac == lac:
                return lac
            write_lac = WriteLac(
                request_id=0,
                ledger_id=ledger_id,
                ledger_key=key,
                ledger_type=metadata.ledger_type,
                lac=synced.lac,
            )
            self._requests.ask_all(bookies, write_lac)  # for readers; who misses it hears it later

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
        self.check_usable()
        outcome = self._requests.ask(bookie_id, GetBookieInfo(request_id=0)).outcome
        if isinstance(outcome, ZbkError):
            raise outcome
        if not isinstance(outcome, BookieInfo):
            raise NotEnoughBookiesError(1, 0, f"bookie {bookie_id} answered something else")
        return outcome


def _tell(actor: "pykka.ActorRef[WriterActor]", message: Drain | Tick) -> None:
    try:
        actor.tell(message)
    except pykka.ActorDeadError:
        return  # its mailbox has been ended, and answers for it


def _member(kind: type[LedgerType] | type[DigestType], name: str, value: str) -> str:
    if value not in list(kind):
        known = ", ".join(kind)
        raise InvalidOptionError(name, value, f"is none of {known}")
    return value
