"""One client that waits for a LAC: its watch, its session, and what it is told.

``lac_watches`` keeps them.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.words import LedgerType
from zbk.transport.inbound import Inbound

NEVER_MS: Final = 2**63 - 1


class Watch:
    """One ledger that is waited for, in a poll or in a session."""

    __slots__ = (
        "inbound", "key", "known_lac", "ledger_id", "ledger_key", "ledger_type", "number",
        "session",
    )  # fmt: skip

    def __init__(
        self,
        ledger_id: int,
        ledger_key: bytes,
        ledger_type: LedgerType,
        known_lac: int,
        *,
        inbound: Inbound | None = None,
        session: "Session | None" = None,
        number: int = 0,
        key: str = "",
    ) -> None:
        assert (inbound is None) is (session is not None), "it is of a poll or of a session"
        self.key = key  # of its connection
        self.ledger_id = ledger_id
        self.ledger_key = ledger_key
        self.ledger_type = ledger_type
        self.known_lac = known_lac
        self.inbound = inbound
        self.session = session
        self.number = number


class Session:
    """The watches of one connection."""

    __slots__ = (
        "due_ms", "inbound", "last_request_id", "peer", "refused", "risen", "session_id", "watches",
    )  # fmt: skip

    def __init__(self, peer: bytes, session_id: int) -> None:
        self.peer = peer
        self.session_id = session_id
        self.watches: dict[int, Watch] = {}
        self.risen: list[Risen] = []  # ended, and not told yet
        self.refused: list[tuple[int, ZbkError]] = []
        self.last_request_id = 0
        self.inbound: Inbound | None = None  # the request that waits
        self.due_ms = NEVER_MS  # of its answer; without a request, of the session's end

    @property
    def has_news(self) -> bool:
        """True when watches have ended that the client does not know of."""
        return bool(self.risen or self.refused)


class Risen(msgspec.Struct, frozen=True, gc=False):
    """The end of a watch. When it is told, the LAC may be higher than it was at this end."""

    number: int
    ledger_id: int
    lac: int


class PollEnded(msgspec.Struct, frozen=True):
    """The answer to a poll: a LAC, or an error."""

    inbound: Inbound
    outcome: int | ZbkError


class SessionAnswered(msgspec.Struct, frozen=True):
    """The answer to a request of a session."""

    inbound: Inbound
    risen: Sequence[Risen] = ()
    refused: Sequence[tuple[int, ZbkError]] = ()
    is_lost: bool = False
