"""Appends that are answered when their entries are durable.

On a PD ledger that is every append. On a VD ledger the append is acknowledged as usual, by a future
of its own; then the writer is asked to report when the entries are durable.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from zbk.client.write.append_future import AppendFuture, fail_unless_done
from zbk.client.write.asks import AskDurable
from zbk.client.write.mailbox import AppendMailbox

IdsT = TypeVar("IdsT")


class DurableAppend(AppendFuture):
    """The future of such an append: its ids, once the entries are durable.

    ``tell`` leaves a message for the writer's body, which resolves this future.
    """

    __slots__ = ("_ids", "_tell")

    def __init__(self, tell: Callable[[AskDurable], None]) -> None:
        super().__init__()
        self._tell = tell
        self._ids: int | range = range(0)

    def follow(self, acknowledged: "Future[Any]") -> None:
        """Wait until the append is acknowledged, then until it is durable."""
        acknowledged.add_done_callback(self._on_acknowledged)

    def _on_acknowledged(self, acknowledged: "Future[Any]") -> None:
        error = acknowledged.exception()
        if error is not None:
            fail_unless_done(self, error)  # the end of the writer may have been faster
            return
        if self.done():
            return  # the writer has ended meanwhile
        self._ids = acknowledged.result()
        last_id = self._ids if isinstance(self._ids, int) else self._ids.stop - 1
        self._tell(AskDurable(self, last_id))

    def set_result(self, _last_durable_id: int) -> None:
        """Resolve it with the ids of its entries."""
        super().set_result(self._ids)


def durably(
    append: "Callable[[], Future[IdsT]]",
    tell: Callable[[AskDurable], None],
    mailbox: AppendMailbox,
) -> "Future[IdsT]":
    """Append, and return a future that waits until the entries are durable.

    Raises:
        ZbkError: as ``append``; nothing was added.
    """
    future = DurableAppend(tell)
    mailbox.ask(future)  # before the append: if this fails, nothing was added
    try:
        acknowledged = append()
    except BaseException as error:
        fail_unless_done(future, error)  # a writer that ends fails what waits for room, and this
        raise
    future.follow(acknowledged)
    return future
