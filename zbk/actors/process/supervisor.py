"""The supervisor actor: keeps the first failure or the request to stop, and ends the bookie once.

mailbox     Failed, from any actor or thread of the bookie; StopRequested, from a signal
answers     ``ended``, which the main thread waits for
owns        nothing
on failure  cannot fail: it only keeps a value

No actor is restarted in place: after a failed write or a bug the memory of the process cannot be
trusted, but the journal can. The operator or the service manager starts the bookie again.
"""

import threading
from typing import TypeAlias, assert_never

import msgspec
import pykka

from zbk.system.event_log import EventLog

LOG = EventLog("zbk.bookie")


class Failed(msgspec.Struct, frozen=True):
    """A part of the bookie cannot continue."""

    error: BaseException


class StopRequested(msgspec.Struct, frozen=True):
    """The bookie is to stop in good order."""

    reason: str


SupervisorMessage: TypeAlias = Failed | StopRequested


class SupervisorActor(pykka.ThreadingActor):
    """Keeps the reason why the bookie ends."""

    use_daemon_thread = True

    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self._ended = ended
        self.error: BaseException | None = None

    def on_receive(self, message: SupervisorMessage) -> None:
        """Record the first reason to end."""
        match message:
            case Failed():
                if self.error is None and not self._ended.is_set():
                    self.error = message.error
                self._ended.set()
            case StopRequested(reason):
                LOG.info("bookie.stopping", "stopping on %(reason)s", reason=reason)
                self._ended.set()
            case _:
                assert_never(message)
