"""What every actor of a bookie has: it runs as a daemon thread, and does not die unseen.

An exception in a handler is either a failed disk or a bug of ours: the state behind it cannot be
trusted any more, so the supervisor is told and the bookie stops. Nothing is restarted in place.
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
        """Hand the message to ``handle``; after a failed disk take nothing more."""
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
        """Fail stop."""
        del exception_type, traceback
        assert exception_value is not None, "a failure has a reason"
        self._stop_bookie(exception_value)


class LendingActor(DirectInbox, BookieActor):
    """An actor of a bookie that, while it is idle, lends its turn to a thread with a message."""

    def __init__(self, stop_bookie: StopBookie, door: Door) -> None:
        super().__init__(stop_bookie)
        door.actor = self

    def on_receive(self, message: Any) -> None:  # noqa: ANN401 - as above
        """Handle the message; fail in this thread if a lent turn has failed."""
        if isinstance(message, Failed):
            raise message.error
        super().on_receive(message)
