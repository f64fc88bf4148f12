"""The door of the storage actor: the front hands requests in, and small ones are served at once.

Requests that do not find the actor idle wait in the ``FairQueue`` of the door.
"""

import threading
from contextlib import suppress
from typing import Final

import msgspec
import pykka

from zbk.actors.serve.fair_queue import NO_LIMITS, FairQueue
from zbk.actors.serve.identity_rates import RateLimits
from zbk.actors.serve.journal_times import UNTIMED
from zbk.metrics.sampling import Sampling
from zbk.system.clock import monotonic_ns
from zbk.system.direct_inbox import Door
from zbk.transport.inbound import Inbound, turn_size

LENT_SIZE_MAX: Final = 64 * 1024
"""Bytes of requests up to which the front's thread takes the turn of an idle storage actor."""


class Requests(msgspec.Struct, frozen=True):
    """The requests that the front received together."""

    batch: list[Inbound]
    received_us: int = 0  # or ``UNTIMED``
    lone_count: int = 1  # of lone requests, for how many these stand in metrics if they are timed


class RequestsWait(msgspec.Struct, frozen=True):
    """Requests wait in the queue of the door. It is sent again as long as any do."""


class Quiesce(msgspec.Struct, frozen=True):
    """Set ``is_quiet`` when everything received before is on stable storage and answered."""

    is_quiet: threading.Event


class StorageDoor(Door):
    """Where the front hands requests to the storage actor: those of a ledger in order."""

    def __init__(self, limits: RateLimits = NO_LIMITS) -> None:
        super().__init__()
        self.queue = FairQueue(limits)
        self._sampling = Sampling()  # of the batches that are served at once

    def receive(self, batch: list[Inbound]) -> None:
        """Serve a small batch in the calling thread if the actor is idle, else leave it to it.

        The front's thread.
        """
        sampling = self._sampling
        is_timed = sampling.left_count == 1
        received_us = monotonic_ns() // 1_000 if is_timed else UNTIMED
        is_small = sum([turn_size(inbound) for inbound in batch]) <= LENT_SIZE_MAX
        requests = Requests(batch, received_us, sampling.share)
        if is_small and self.queue.may_pass(batch) and self.hand(requests):
            if is_timed:
                sampling.timed(received_us)
            else:
                sampling.left_count -= 1
            return
        if not is_timed:
            received_us = monotonic_ns() // 1_000
        if self.queue.put(batch, received_us):
            with suppress(pykka.ActorDeadError):  # the bookie stops
                self.tell(RequestsWait())
