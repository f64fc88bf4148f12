"""The self-test of a bookie: a small ledger on it alone, written, read and deleted.

Source: BookKeeper's ``SanityTestCommand``.
"""

from contextlib import suppress
from typing import Final

from zbk.client import arguments
from zbk.client.calls.ledger_reading import LedgerReadCalls
from zbk.client.calls.ledger_writing import LedgerWriteCalls
from zbk.client.write.ledger_creation import LedgerOptions, plan_ledger
from zbk.errors import BookieReadOnlyError, BookieUnavailableError, DamageError, ZbkError
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.deadline import within

PAYLOADS: Final = [b"entry-%d" % number for number in range(10)]
PURPOSE: Final = {"purpose": b"self-test"}
"""The custom metadata of the ledger. One that a crash has left can be recognized."""


class SelfTestCalls(LedgerWriteCalls, LedgerReadCalls):
    """The part of a client that tests bookies."""

    def test_bookie(self, bookie_id: str, *, timeout: float = 5.0) -> None:
        """Write a few entries to a bookie, read them and delete them. ``timeout`` in seconds.

        Raises:
            BookieUnavailableError: the bookie is not there, or failed meanwhile.
            BookieReadOnlyError: it accepts no new ledgers.
            DamageError: an entry is not what was written.
            RequestTimeoutError: it did not answer in time.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        timeout_s = arguments.seconds(timeout)
        self.check_usable()
        found = [one for one in self._directory.registrations() if one.bookie_id == bookie_id]
        if not found:
            raise BookieUnavailableError(bookie_id, "it is not registered")
        if found[0].is_readonly:
            raise BookieReadOnlyError(bookie_id)
        options = LedgerOptions(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, custom_metadata=PURPOSE
        )
        made = self._creator.create(plan_ledger(options), has_writer=True, bookies=(bookie_id,))
        try:
            with within(timeout_s):
                self._write_and_read(made, bookie_id)
        finally:
            with suppress(ZbkError):  # the outcome of the test counts
                self.delete_ledger(made.ledger_id)

    def _write_and_read(self, made: LedgerMetadata, bookie_id: str) -> None:
        with self._writers.start(made, b"") as writer:
            writer.append_many(PAYLOADS).result()
        closed = self.get_ledger_metadata(made.ledger_id)
        if any(one.bookies != (bookie_id,) for one in closed.fragments):
            raise BookieUnavailableError(bookie_id, "it failed, and another bookie took its place")
        with self.open_ledger(made.ledger_id) as reader:
            found = [
                bytes(one) for batch in reader.read_batches(0, len(PAYLOADS) - 1) for one in batch
            ]
        if found != PAYLOADS:
            raise DamageError(f"bookie {bookie_id} returned other entries than were written")
