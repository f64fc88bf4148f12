"""Reads a range for an application that iterates: waits for what ``ReadAhead`` asks for."""

from collections.abc import Callable, Iterator
from typing import Self

from zbk.client.cluster.requests import ReplyBox, Requests
from zbk.client.read.read_ahead import ReadAhead
from zbk.config import ClientConfig
from zbk.errors import MetadataUnavailableError, RequestTimeoutError
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.deadline import left_s, rounded_s, within


class ReadPump(Iterator[ReadBatch]):
    """One pass over a range of a ledger. ``refresh`` reads its metadata again.

    After a time-out it goes on where it was, with the answers that came meanwhile. ``lac`` rises
    with what bookies tell beside entries, and with what writers put into them.
    """

    def __init__(
        self,
        metadata: LedgerMetadata,
        refresh: Callable[[], LedgerMetadata],
        ledger_key: bytes,
        digest: DigestFunction,
        requests: Requests,
        config: ClientConfig,
        *,
        bookie_id: str | None,
        timeout_s: float,
    ) -> None:
        self._metadata = metadata
        self._refresh = refresh
        self._ledger_key = ledger_key
        self._digest = digest
        self._requests = requests
        self._config = config
        self._bookie_id = bookie_id
        self._timeout_s = timeout_s
        self._box = ReplyBox()
        self._ahead: ReadAhead | None = None
        self.lac = NO_ENTRY

    def run(self, first: int, last: int) -> Self:
        """Return an iterator over the entries ``first .. last`` in batches, in order."""
        self._ahead = ReadAhead(
            self._metadata,
            self._ledger_key,
            self._digest,
            self._requests,
            self._config,
            self._box,
            first,
            last,
            bookie_id=self._bookie_id,
        )
        return self

    def __next__(self) -> ReadBatch:
        """Return the next batch; wait for it.

        Raises:
            RequestTimeoutError: it did not come in time.
            ZbkError: it cannot be read.
        """
        ahead = self._ahead
        assert ahead is not None, "a range was given"
        while not ahead.is_over:
            batch = ahead.next_batch()
            self.lac = ahead.lac
            if batch is not None:
                return batch
            if ahead.wants_metadata:
                try:
                    with within(self._timeout_s):
                        metadata = self._refresh()
                except MetadataUnavailableError as error:
                    ahead.not_refreshed(error)
                else:
                    ahead.refreshed(metadata)
            elif not ahead.is_over:
                self._wait(ahead)
        raise StopIteration

    def _wait(self, ahead: ReadAhead) -> None:
        """Handle the next reply; until it comes, note that time passes."""
        timeout_s = left_s(self._timeout_s)
        deadline_s = monotonic_s() + timeout_s
        while True:
            wait_s = max(0.0, deadline_s - monotonic_s())
            if ahead.due_ms is not None:
                wait_s = min(wait_s, max(0.0, (ahead.due_ms - monotonic_ms()) / 1000))
            reply = self._box.next(wait_s)
            if reply is not None:
                ahead.take(reply)
                return
            if monotonic_s() >= deadline_s:
                what = f"read of ledger {self._metadata.ledger_id}"
                raise RequestTimeoutError(what, rounded_s(timeout_s))
            ahead.tick()
