"""The parts of a bookie around its storage actor, and the limits of what it serves."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from zbk.actors.messages import Sink, TickSource
from zbk.actors.serve.journal import JournalSink
from zbk.actors.serve.lac_watches import WATCH_COUNT_MAX
from zbk.actors.serve.ledger_lookups import LookUp
from zbk.actors.serve.ledger_table import LEDGER_COUNT_MAX
from zbk.actors.serve.log_syncs import SyncLogs
from zbk.actors.serve.read import Fetch
from zbk.actors.serve.sync_queue import Send, SyncProgress
from zbk.actors.space_gate import SpaceGate
from zbk.errors import ZbkError
from zbk.security.access_table import AccessTable
from zbk.system.clock import monotonic_ms
from zbk.transport.inbound import Inbound
from zbk.wire.messages import CollectGarbage, GetBookieInfo, Message, Scrub

StatusRequest: TypeAlias = GetBookieInfo | CollectGarbage | Scrub


class Audit(Protocol):
    """The audit log of the bookie."""

    def done(
        self, action: Literal["create", "fence", "recovery"], inbound: Inbound, ledger_id: int, /
    ) -> None:
        """Record what the client of a request has done to a ledger."""

    def refused(self, inbound: Inbound, error: ZbkError, /) -> None:
        """Record the refusal of a request, if it is about who asks."""


class ServeParts(msgspec.Struct, frozen=True):
    """The receivers of the storage actor's output, and its sources beside storage."""

    journals: Callable[[], Sequence[JournalSink]]  # there are none yet when the actor starts
    progresses: Sequence[SyncProgress]  # of each journal
    reader: Sink[list[Fetch]]
    look_up: Callable[[LookUp], None]
    sync_logs: Callable[[SyncLogs], None]
    send: Send
    space: SpaceGate
    ticker: TickSource
    status: Callable[[StatusRequest], Message]
    now_ms: Callable[[], int] = monotonic_ms
    access: AccessTable | None = None  # None: no rights are enforced
    audit: Audit | None = None


class ServeLimits(msgspec.Struct, frozen=True):
    """How much one request may bring or take, and how much is kept in memory."""

    entry_size_max: int
    read_size_max: int
    ledger_count_max: int = LEDGER_COUNT_MAX
    watch_count_max: int = WATCH_COUNT_MAX
