"""The base classes of a bookie's actors: daemon threads whose failure stops the bookie.

An exception in a handler is either a failed disk or a bug. The state in memory cannot be trusted
after it, so the supervisor is told and the bookie stops. No actor is restarted in place.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeAlias

import pykka

from zbk.errors import StorageFailedError
from zbk.system.direct_inbox import DirectInbox, Door, Failed
from zbk.system.light_inbox import LightInbox

StopBookie: TypeAlias = Callable[[BaseException], None]


class BookieActor(LightInbox, pykka.ThreadingActor):
    """An actor whose failure stops the bookie."""

    use_daemon_thread = True

    def __init__(self, stop_bookie: StopBookie) -> None:
        super().__init__()
        self._stop_bookie = stop_bookie
        self._has_failed = False

    def handle(self, message: Any) -> None:  # noqa: ANN401 - each actor says what it takes
        """Handle one message, in the actor's thread."""
        raise AssertionError(f"{type(self).__name__} takes no {type(message).__name__}")

    def on_receive(self, message: Any) -> None:  # noqa: ANN401 - as above
        """Pass the message to ``handle``; ignore messages after a failed disk."""
        if self._has_failed:
            return
        try:
            self.handle(message)
        except StorageFailedError as error:  # expected of disks: no traceback needed
            self._has_failed = True
            self._stop_bookie(error)

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the bookie."""
        del exception_type, traceback
        assert exception_value is not None, "a failure has a reason"
        self._stop_bookie(exception_value)


class LendingActor(DirectInbox, BookieActor):
    """An actor that, while it is idle, lends its turn to a thread that has a message for it."""

    def __init__(self, stop_bookie: StopBookie, door: Door) -> None:
        super().__init__(stop_bookie)
        door.actor = self

    def on_receive(self, message: Any) -> None:  # noqa: ANN401 - as above
        """Handle the message; raise the error here if a lent turn has failed."""
        if isinstance(message, Failed):
            raise message.error
        super().on_receive(message)
