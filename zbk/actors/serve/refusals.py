"""What a client is told of an error.

Want of file descriptors is a matter of this bookie, and of this moment: the client is told that it
is busy. What it asked for has not happened, and may be asked for again.
"""

from zbk.errors import BusyError, OutOfDescriptorsError, ZbkError
from zbk.transport.inbound import Inbound
from zbk.wire.codec import refusal
from zbk.wire.messages import Refused


def refusal_of(inbound: Inbound, incarnation: int, error: ZbkError) -> Refused:
    """Return the answer that carries an error."""
    if isinstance(error, OutOfDescriptorsError):
        error = BusyError("this bookie has too many files and connections open just now")
    return refusal(inbound.request.request_id, incarnation, error)
