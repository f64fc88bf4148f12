"""The batches of a read whose call is traced: its span ends with the read."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zbk.protocol.entry.read_batch import ReadBatch

if TYPE_CHECKING:
    from zbk.tracing.span import GuardedSpan


class TracedBatches(Iterator[ReadBatch]):
    """The batches of another iterator. The span ends with the last one, an error, or the handle."""

    def __init__(self, batches: Iterator[ReadBatch], span: "GuardedSpan") -> None:
        self._batches = batches
        self._span = span
        self._entry_count = 0

    def __next__(self) -> ReadBatch:
        """Return the next batch, with the errors of the other iterator."""
        try:
            batch = next(self._batches)
        except StopIteration:
            self._end(None)
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._entry_count += len(batch)
        return batch

    def __del__(self) -> None:
        """End the span of a read that was dropped before its end."""
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        self._span.set("zbk.count", self._entry_count)
        self._span.end(error)
