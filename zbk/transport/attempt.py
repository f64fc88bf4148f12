"""One life of a connection, as its errors describe it: where it leads, and how it ended. Pure."""

from enum import Enum

import msgspec
import zmq

from zbk.errors import (
    BookieUnavailableError,
    KeyRefusedError,
    RequestTimeoutError,
    SecurityMismatchError,
    WrongBookieError,
)
from zbk.security.credentials import Credentials, Door
from zbk.transport.key_guard import refusal_of
from zbk.wire.messages import Message


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

    def error_of(self, event: int, state: State, *, is_late: bool) -> BookieUnavailableError:
        """Return the error of a life that ended in a state, with an event of ZeroMQ.

        ``is_late``: the time to connect was over.
        """
        # it broke the protocol of ZeroMQ
        is_foreign = event == zmq.EVENT_DISCONNECTED and state is State.CONNECTING
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
        if state is State.READY:
            reason = f"the connection to {where} was lost"
        elif is_late:  # libzmq's time-out, not a refusal
            return self.unanswered()
        elif event == zmq.EVENT_CLOSED:
            reason = f"the connection to {where} was refused"
        else:
            reason = f"{where} closed the connection before it answered"
        return BookieUnavailableError(self.bookie_id, reason)

    def late(self, kind: type[Message], timeout_ms: int) -> RequestTimeoutError:
        """Return the error of a request that was handed over, and was not answered in time."""
        what = f"{kind.__name__} to bookie {self.bookie_id} at {self.address}"
        return RequestTimeoutError(what, timeout_ms / 1000)

    def silent(self, silent_ms: int) -> BookieUnavailableError:
        """Return the error of a life that ends because no answer at all comes."""
        reason = f"{self.address} has answered nothing for {silent_ms / 1000:g} s"
        return BookieUnavailableError(self.bookie_id, reason)

    def restarted(self, before: int, after: int) -> WrongBookieError:
        """Return the error of a life in which the bookie's incarnation changed."""
        reason = f"incarnation {before} of bookie {self.bookie_id} has become {after}"
        return WrongBookieError(reason)

    def unanswered(self) -> BookieUnavailableError:
        """Return the error of an attempt that got no answer in time."""
        reason = f"no answer from {self.address} within {self.timeout_ms / 1000:g} s"
        return BookieUnavailableError(self.bookie_id, reason)
