"""The answer that reports an error to a client.

A lack of file descriptors concerns this bookie at this moment only: the client is told that the
bookie is busy. Its request had no effect and may be repeated.
"""

from zbk.errors import BusyError, OutOfDescriptorsError, StorageFailedError, ZbkError
from zbk.transport.inbound import Inbound
from zbk.wire.codec import refusal
from zbk.wire.messages import Refused


def answerable(error: ZbkError) -> ZbkError:
    """Return an error that is an answer.

    Raises:
        StorageFailedError: this error is none, and the bookie has to stop.
    """
    if isinstance(error, StorageFailedError) and not isinstance(error, OutOfDescriptorsError):
        raise error
    return error


def refusal_of(inbound: Inbound, incarnation: int, error: ZbkError) -> Refused:
    """Return the answer that carries an error."""
    if isinstance(error, OutOfDescriptorsError):
        error = BusyError("this bookie has too many files and connections open just now")
    return refusal(inbound.request.request_id, incarnation, error)
