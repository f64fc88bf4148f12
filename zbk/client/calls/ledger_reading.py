"""The calls of a client that read, recover, list and delete ledgers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zbk.client import arguments
from zbk.client.calls.connection import ClientConnection
from zbk.client.cluster.ledger_calls import LedgerContext, LedgerRequests
from zbk.client.read.ledger_reader import LedgerReader, ReaderSetup
from zbk.client.read.metadata_source import MetadataSource
from zbk.client.read.tail_group import TailGroup
from zbk.durability.level import level_of
from zbk.errors import DamageError
from zbk.metadata.records.underreplication import UnderreplicatedLedger
from zbk.protocol.entry.digest import digest_function, ledger_key
from zbk.protocol.ledger.access import Right
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.deadline import within

if TYPE_CHECKING:
    from zbk.client.operations.ledger_copies import LedgerCopy
    from zbk.tracing.span import GuardedSpan


class LedgerReadCalls(ClientConnection):
    """The part of a client that reads ledgers."""

    def open_ledger(self, ledger_id: int, password: bytes = b"") -> LedgerReader:
        """Return a reader of a ledger. It never fences, and does not disturb the writer.

        Raises:
            NoSuchLedgerError: there is no such ledger.
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
        """Close a ledger in place of its writer, and return a reader of all that is in it.

        For a writer that is gone, or must be stopped: its bookies are fenced, so it can add nothing
        more. Every acknowledged entry is in the ledger afterwards; each of the others may be. Any
        number of clients may recover a ledger at the same time; all see the same end. A closed
        ledger is only opened. ``timeout``, in seconds, is for all steps together.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            UnauthorizedError: the password is another one; nothing was fenced.
            LedgerRecoveryError: too few bookies report what they have; try again later.
            NotEnoughBookiesError: too few bookies take the entries that were found; as above.

        Examples:
            >>> import zbk
            >>> with zbk.connect() as client, client.recover_ledger(7) as ledger:  # doctest: +SKIP
            ...     ledger.last_add_confirmed
            41
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        timeout_s = self._timeout_s(timeout)
        self.check_usable()
        with within(timeout_s):
            return self._recover_ledger(ledger_id, password, timeout_s)

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """Return the metadata of a ledger.

        Raises:
            NoSuchLedgerError: there is no such ledger.
        """
        ledger_id = arguments.ledger_id(ledger_id)
        self.check_usable()
        return self._ledgers.read(ledger_id)[0]

    def get_underreplicated(self, ledger_id: int) -> UnderreplicatedLedger | None:
        """Return the report of missing copies of a ledger; ``None`` if there is none.

        A ledger that autorecovery still has to check, as after a recovery, has a report, too. That
        of a ledger that cannot be repaired has the reason in ``unrepairable``.
        """
        ledger_id = arguments.ledger_id(ledger_id)
        self.check_usable()
        found = self._tasks.read(ledger_id)
        return self._tasks.read_unrepairable(ledger_id) if found is None else found[0]

    def get_ledger_copies(self, ledger_id: int, *, timeout: float = 5.0) -> "list[LedgerCopy]":
        """Return what each bookie of a ledger's last fragment holds of it now. Syncs nothing.

        A bookie that does not answer within ``timeout`` seconds has the reason in ``why``.

        Raises:
            NoSuchLedgerError: there is no such ledger.
        """
        from zbk.client.operations.ledger_copies import ask_copies

        ledger_id, timeout_s = arguments.ledger_id(ledger_id), arguments.seconds(timeout)
        self.check_usable()
        return ask_copies(self._requests, self._ledgers.read(ledger_id)[0], timeout_s)

    def list_ledgers(self, first_id: int = 0) -> Iterator[int]:
        """Yield the ids of all ledgers from ``first_id`` on, ascending."""
        first_id = arguments.ledger_id(first_id)
        self.check_usable()
        return self._ledgers.list(first_id)

    def next_ledger_id(self) -> int:
        """Return an id that is above those of all ledgers that exist now."""
        self.check_usable()
        return self._ledgers.next_ledger_id()

    def delete_ledger(self, ledger_id: int) -> None:
        """Delete a ledger's metadata; bookies drop its entries later.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            AccessDeniedError: this client has no right to delete it.
        """
        ledger_id = arguments.ledger_id(ledger_id)
        self.check_usable()
        with self._audit.of("delete", "", ledger_id):
            metadata = self._check_right(ledger_id, Right.DELETE)
            if metadata is not None and metadata.access:
                self._ledgers.delete_counted(ledger_id)
            else:
                self._ledgers.delete(ledger_id)

    def sync_ledger(self, ledger_id: int, password: bytes = b"") -> int:
        """Make the bookies of an open ledger fsync; return the last id that is durable.

        For a VD ledger whose writer is elsewhere or gone; readers can then read as far. A closed
        ledger is durable to its end.

        Raises:
            CannotAdvanceError: too few bookies answered to know how far the ledger is durable, or
                the ledger is being recovered: its end is not known before it is closed.
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        self.check_usable()
        metadata, version = self._ledgers.read(ledger_id, is_fresh=True)
        self._check_password(metadata, password)
        if metadata.last_entry_id is not None:
            return metadata.last_entry_id
        if not level_of(metadata.ledger_type).has_sync_cursor:
            with self.open_ledger(ledger_id, password) as reader:
                return reader.last_add_confirmed
        from zbk.client.operations.outside_sync_pump import sync_from_outside

        with self._spanned("zbk.sync", ledger_id) as span:
            context = self._context(metadata, password).traced(span)
            return sync_from_outside(metadata, version, self._ledgers, context)

    def _recover_ledger(self, ledger_id: int, password: bytes, timeout_s: float) -> LedgerReader:
        from zbk.client.operations.recovery_pump import RecoveryPump, RecoverySetup
        from zbk.protocol.ledger.changes import begin_recovery

        def begin(current: LedgerMetadata) -> LedgerMetadata | None:
            self._check_password(current, password)
            if not current.is_closed:
                self._own.check(current, Right.RECOVER)
            return begin_recovery(current)

        with self._spanned("zbk.recover", ledger_id, may_be_root=True) as span:
            metadata, _version = self._ledgers.update(ledger_id, begin)
            if not metadata.is_closed:
                setup = RecoverySetup(
                    metadata=metadata,
                    context=self._context(metadata, password).traced(span),
                    placer=self._placer,
                    ledgers=self._ledgers,
                    tasks=self._tasks,
                    check_usable=self.check_usable,
                )
                metadata = RecoveryPump(setup).run(timeout_s)
            if span is not None and metadata.last_entry_id is not None:
                span.set("zbk.last_entry_id", metadata.last_entry_id)
        return self._reader(metadata, password)

    def _check_right(self, ledger_id: int, right: Right) -> LedgerMetadata | None:
        """Check a right of a client with a key; return the metadata, if they were read.

        A ledger with damaged metadata is an operator's.
        """
        if not self._own.has_key:
            return None
        try:
            metadata, _version = self._ledgers.read(ledger_id)
        except DamageError:
            self._own.check_damaged(ledger_id, right)
            return None
        self._own.check(metadata, right)
        return metadata

    @contextmanager
    def _spanned(
        self, name: str, ledger_id: int, *, may_be_root: bool = False
    ) -> "Iterator[GuardedSpan | None]":
        """Trace a block: yield its span if the caller is traced, else ``None``."""
        spans, span = self._spans, None
        if spans is not None:
            span = spans.start(name, {"zbk.ledger_id": ledger_id}, may_be_root=may_be_root)
        if span is None:
            yield None
            return
        try:
            yield span
        except BaseException as error:
            span.end(error)
            raise
        span.end()

    def _reader(self, metadata: LedgerMetadata, password: bytes) -> LedgerReader:
        return LedgerReader(
            ReaderSetup(
                metadata=metadata,
                source=MetadataSource(self._ledgers, self._metadata_actors, metadata.ledger_id),
                context=self._context(metadata, password),
                watches=self._lac_watches,
                check_usable=self.check_usable,
            )
        )

    def _context(self, metadata: LedgerMetadata, password: bytes) -> LedgerContext:
        ledger_id = metadata.ledger_id
        return LedgerContext(
            requests=LedgerRequests.of(metadata, ledger_key(password, ledger_id)),
            sender=self._requests,
            digest=digest_function(metadata.digest_type, password, ledger_id),
            config=self._config,
            spans=self._spans,
        )
