"""The calls of a client that make ledgers and write them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Unpack

from zbk.client import arguments
from zbk.client.calls.connection import ClientConnection
from zbk.client.write.ledger_creation import (
    LedgerOptions,
    check_policy,
    plan_ledger,
    sync_policy,
)
from zbk.durability.level import level_of
from zbk.errors import ArgumentValueError, LedgerClosedError, UnsupportedLedgerError
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.access import Right
from zbk.protocol.ledger.metadata import LedgerMetadata

if TYPE_CHECKING:
    from zbk.client.write.ledger_writer import LedgerWriter

LEDGER_COUNT_MAX: Final = 100_000
"""Ledgers that one call makes."""


class LedgerWriteCalls(ClientConnection):
    """The part of a client that makes and writes ledgers."""

    def create_ledger(self, **options: Unpack[LedgerOptions]) -> "LedgerWriter":
        """Create a ledger and return its writer.

        Each entry goes to ``write_quorum_size`` (3) of ``ensemble_size`` (3) bookies and is
        acknowledged when ``ack_quorum_size`` (2) have it. Further keywords: ``ledger_type``
        (``PD_JOURNAL``), ``digest_type`` (``XXH3``), ``password``, ``custom_metadata``.

        ``sync_every`` makes the writer of a VD ledger sync by itself: after a number of entries, a
        size such as ``"8 MiB"`` or a time such as ``"1s"``.

        With a key, the principal of this client owns the ledger: others have only the rights in
        ``grants``, such as ``{"bob": ["read"]}``, and those of its ``namespace``, a path such as
        ``"orders/eu"``.

        Raises:
            InvalidQuorumError: the sizes do not fit together.
            NotEnoughBookiesError: fewer bookies are writable than the ensemble needs.
            NoSuchNamespaceError, NamespaceDeniedError: there is no such namespace, or this client
                may not create ledgers in it.
            PrincipalRequiredError: no principal has the key of this client.
            NamespaceFullError: the namespace has as many ledgers or bytes as it may have.
        """
        plan = plan_ledger(options)
        self.check_usable()
        made = self._creator.create(plan, has_writer=True)
        return self._writers.start(made, plan.password, plan.sync_every)

    def create_ledgers(self, count: int, **options: Unpack[LedgerOptions]) -> "list[LedgerWriter]":
        """Create many ledgers of one kind at once, and return their writers.

        For loaders that need thousands: a step of the metadata store creates 128 of them. Each
        ledger has an ensemble of its own. The keywords and errors are those of ``create_ledger``.
        After an error none of the ledgers is left, unless the store cannot be reached or the client
        is being closed.

        Examples:
            >>> import zbk
            >>> with zbk.connect() as client:  # doctest: +SKIP
            ...     writers = client.create_ledgers(1_000, ack_quorum_size=2)
            ...     futures = [writer.append_async(b"hello") for writer in writers]
            ...     client.close_all(writers)
        """
        count = arguments.integer("count", count, 1, LEDGER_COUNT_MAX)
        plan = plan_ledger(options)
        self.check_usable()
        made = self._creator.create_many(plan, count)
        return self._writers.start_all(made, plan.password, plan.sync_every)

    def close_all(
        self, writers: "Iterable[LedgerWriter]", *, timeout: float | None = None
    ) -> list[int]:
        """Close many ledgers at the same time; return the last entry id of each, in order.

        Each is closed as by ``LedgerWriter.close``, and all of them within ``timeout`` (seconds).
        All are tried. The error of the first ledger that was not closed is raised, with a note that
        names the others. Closing again closes the rest.

        Raises:
            ZbkError: as ``LedgerWriter.close``.
        """
        from zbk.client.write.close_all import close_all
        from zbk.client.write.ledger_writer import LedgerWriter

        timeout_s = self._timeout_s(timeout)
        opened = arguments.instances("writers", writers, LedgerWriter)
        self.check_usable()
        return close_all(opened, timeout_s)

    def reserve_ledger(self, **options: Unpack[LedgerOptions]) -> int:
        """Create a ledger without a writer and return its id: ``open_for_append`` gives it one.

        For a writer in another process than the one that decides about the ledger. The keywords
        are those of ``create_ledger``, without ``sync_every``: that is the writer's.
        """
        plan = plan_ledger(options)
        if plan.sync_every is not None:
            why = "is an option of the writer: give it to open_for_append"
            raise ArgumentValueError("sync_every", str(options["sync_every"]), why)
        self.check_usable()
        return self._creator.create(plan, has_writer=False).ledger_id

    def open_for_append(
        self, ledger_id: int, password: bytes = b"", *, sync_every: int | str | None = None
    ) -> "LedgerWriter":
        """Become the one writer of a reserved ledger. ``sync_every`` is as in ``create_ledger``.

        At most one caller succeeds, ever: a compare-and-swap in the metadata decides.

        Raises:
            ArgumentValueError: ``sync_every`` is no policy, or the ledger is not a VD ledger.
            IllegalTransitionError: it has, or had, a writer.
            LedgerClosedError: it is closed.
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        policy = sync_policy(sync_every)
        self.check_usable()

        def claim(current: LedgerMetadata) -> LedgerMetadata:
            self._check_password(current, password)
            self._own.check(current, Right.APPEND)
            check_policy(policy, current.ledger_type)
            if current.state is not LedgerState.OPEN:
                raise LedgerClosedError(ledger_id, current.last_entry_id)
            has_sync_cursor = level_of(current.ledger_type).has_sync_cursor
            return current.with_writer(records_reported_lac=has_sync_cursor)

        metadata, _version = self._ledgers.update(ledger_id, claim)
        return self._writers.start(metadata, password, policy)

    def close_reserved_ledger(self, ledger_id: int, password: bytes = b"") -> None:
        """Close a ledger that never had a writer, as empty.

        Raises:
            LedgerClosedError: it is closed.
            UnsupportedLedgerError: it has a writer, and only that writer closes it.
        """
        ledger_id, password = arguments.ledger_id(ledger_id), arguments.password(password)
        self.check_usable()

        def close(current: LedgerMetadata) -> LedgerMetadata:
            self._check_password(current, password)
            self._own.check(current, Right.APPEND)
            if current.is_closed:
                raise LedgerClosedError(ledger_id, current.last_entry_id)
            if current.has_writer:
                raise UnsupportedLedgerError(
                    f"ledger {ledger_id} has a writer, and its writer closes it; if that one is "
                    f"gone, recover the ledger: `zbk ledger recover {ledger_id}`"
                )
            return current.with_closed(NO_ENTRY, 0)

        self._ledgers.update(ledger_id, close)
