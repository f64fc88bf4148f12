"""The supervisor actor: hears of the first failure, or of the wish to stop, and says so once.

mailbox     Failed, from any actor or thread of the bookie; StopRequested, from a signal
answers     ``ended``, which the main thread waits for
owns        nothing
on failure  cannot fail: it only remembers

Nothing is restarted in place: after a failed write or a bug the memory of the process cannot be
trusted, but the journal can. Whoever runs the bookie starts it again.
"""

import threading
from typing import TypeAlias, assert_never

import msgspec
import pykka


class Failed(msgspec.Struct, frozen=True):
    """A part of the bookie cannot go on."""

    error: BaseException


class StopRequested(msgspec.Struct, frozen=True):
    """Somebody wants the bookie to stop in good order."""


SupervisorMessage: TypeAlias = Failed | StopRequested


class SupervisorActor(pykka.ThreadingActor):
    """Remembers why the bookie ends."""

    use_daemon_thread = True

    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self._ended = ended
        self.error: BaseException | None = None

    def on_receive(self, message: SupervisorMessage) -> None:
        """Note the first reason to end."""
        match message:
            case Failed():
                if self.error is None and not self._ended.is_set():
                    self.error = message.error
                self._ended.set()
            case StopRequested():
                self._ended.set()
            case _:
                assert_never(message)
