"""Reading a range for an application that iterates: waits for the chunks of ``ReadAhead``."""

from collections.abc import Callable, Iterator

from zbk.client.arrivals import pause_s
from zbk.client.cluster.ledger_calls import LedgerContext
from zbk.client.cluster.requests import ReplyBox
from zbk.client.read.read_ahead import ReadAhead
from zbk.errors import MetadataUnavailableError, RequestTimeoutError
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.clock import monotonic_s
from zbk.system.deadline import left_s, rounded_s, within


class ReadPump(Iterator[ReadBatch]):
    """One pass over the entries of a ``span`` of a ledger, in batches, in order.

    ``refresh`` reads the metadata again. ``learn`` receives the highest LAC so far with each batch.
    ``timeout_s`` limits each wait. After a time-out the pass continues where it was, with the
    answers that came meanwhile. ``check_usable`` raises if the client cannot be used any more.
    """

    def __init__(
        self,
        context: LedgerContext,
        metadata: LedgerMetadata,
        refresh: Callable[[], LedgerMetadata],
        learn: Callable[[int], None],
        span: Span,
        *,
        bookie_id: str | None,
        timeout_s: float,
        check_usable: Callable[[], None] = lambda: None,
    ) -> None:
        self._ledger_id = metadata.ledger_id
        self._refresh = refresh
        self._learn = learn
        self._timeout_s = timeout_s
        self._check_usable = check_usable
        self._box = ReplyBox()
        self._ahead = ReadAhead(context, metadata, self._box, *span, bookie_id=bookie_id)

    def __next__(self) -> ReadBatch:
        """Return the next batch; wait for it.

        Raises:
            RequestTimeoutError: it did not come in time.
            ZbkError: it cannot be read.
        """
        ahead = self._ahead
        while not ahead.is_over:
            batch = ahead.next_batch()
            if batch is not None:
                self._learn(ahead.lac)
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
                self._wait()
        raise StopIteration

    def _wait(self) -> None:
        """Handle the next reply; until it comes, let time pass for the chunks."""
        self._check_usable()  # no reply comes in a forked child
        timeout_s = left_s(self._timeout_s)
        deadline_s = monotonic_s() + timeout_s
        while True:
            reply = self._box.next(pause_s(timeout_s, deadline_s, self._ahead.due_ms))
            if reply is not None:
                self._ahead.take(reply)
                return
            if monotonic_s() >= deadline_s:
                what = f"read of ledger {self._ledger_id}"
                raise RequestTimeoutError(what, rounded_s(timeout_s))
            self._ahead.tick()
