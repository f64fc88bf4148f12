"""Requests that a bookie receives, and the answers to them."""

from typing import TYPE_CHECKING

import msgspec

from zbk.transport.frames import Frame
from zbk.wire.messages import GetLedgerInfo, Message, Request

if TYPE_CHECKING:
    from zbk.tracing.request_spans import RequestSpan


class Inbound(msgspec.Struct, frozen=True):
    """One checked request, with the frames that follow its header. Answer it exactly once."""

    peer: bytes  # routing id of its connection
    request: Request
    frames: tuple[bytes, ...]
    size: int  # bytes, given back to the peer's credit when it is answered
    expected_size: int = 0  # bytes that are set aside for the answer
    life: object = None  # used by the front: a routing id may be used again by a later connection
    span: "RequestSpan | None" = None  # its trace

    @property
    def key(self) -> str:
        """The public key that its connection has proved to have; "" without encryption."""
        key: str = getattr(self.life, "key", "")
        return key

    @property
    def share_key(self) -> str:
        """The key whose share of the bookie this takes; "" without one, or with a role."""
        return "" if getattr(self.life, "has_role", False) else self.key


def turn_size(inbound: Inbound) -> int:
    """Return the bytes for which a request counts in a turn of the storage actor.

    A question of some hundred bytes about a ledger may look at a million entries.
    """
    is_long = type(inbound.request) is GetLedgerInfo
    return inbound.size + inbound.expected_size if is_long else inbound.size


class Outbound(msgspec.Struct, frozen=True):
    """The answer to one ``Inbound``."""

    inbound: Inbound
    answer: Message
    frames: tuple[Frame, ...] = ()
