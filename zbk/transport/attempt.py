"""One life of a connection, as its errors describe it: where it leads, and how it ended. Pure."""

from enum import Enum

import msgspec
import zmq

from zbk.errors import BookieUnavailableError, KeyRefusedError, SecurityMismatchError
from zbk.security.credentials import Credentials, Door
from zbk.transport.key_guard import refusal_of


class State(Enum):
    """The stages in the life of a connection."""

    IDLE = "not connected"
    CONNECTING = "connecting"
    GREETING = "waiting for the answer to HELLO"
    READY = "ready"


class Attempt(msgspec.Struct, frozen=True):
    """One life of a connection to a bookie."""

    bookie_id: str
    door: Door
    credentials: Credentials
    timeout_ms: int

    @property
    def address(self) -> str:
        """Where it leads."""
        return self.door.address

    def error_of(
        self, event: int, *, was_shaken: bool, was_ready: bool, is_late: bool
    ) -> BookieUnavailableError:
        """Return the error of a life that ended with an event of ZeroMQ.

        ``was_shaken``: ZeroMQ's handshake was over. ``was_ready``: the bookie had answered HELLO.
        ``is_late``: the time to connect was over.
        """
        is_foreign = event == zmq.EVENT_DISCONNECTED and not was_shaken  # it broke the protocol
        is_failed = is_foreign or event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        where, pair = self.address, self.credentials.pair
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return KeyRefusedError(self.bookie_id, refusal_of(pair.public_key if pair else ""))
        if is_failed and self.door.public_key:
            reason = (
                f"{where} ended the encrypted handshake: it does not have the key of its "
                "registration, or does not encrypt; another process may listen there"
            )
            return SecurityMismatchError(self.bookie_id, reason)
        if is_foreign:
            reason = (
                f"{where} speaks another protocol, or requires encryption: give a key with --key, "
                "or ZBK_KEY"
            )
            return SecurityMismatchError(self.bookie_id, reason)
        if was_ready:
            reason = f"the connection to {where} was lost"
        elif is_late:  # libzmq's time-out, not a refusal
            return self.unanswered()
        elif event == zmq.EVENT_CLOSED:
            reason = f"the connection to {where} was refused"
        else:
            reason = f"{where} closed the connection before it answered"
        return BookieUnavailableError(self.bookie_id, reason)

    def unanswered(self) -> BookieUnavailableError:
        """Return the error of an attempt that got no answer in time."""
        reason = f"no answer from {self.address} within {self.timeout_ms / 1000:g} s"
        return BookieUnavailableError(self.bookie_id, reason)
