"""How fast the requests of one client are served: requests, bytes and fences a second.

An *identity* is a key, or a connection without one. All connections with one key share its rates.
A client over a rate is served later, never refused: its requests wait, its credit is used up, and
it sends no more. Principals with a role in the cluster (operator, bookie, auditor) have no limits:
repair and recovery are theirs.

A fence stops a writer, so fences have a rate of their own, which is on by default. It bounds what
one client can do to the writers of others, and the fsyncs that it causes.

Pure. Owned by the ``FairQueue``.
"""

from typing import Final

import msgspec

from zbk.protocol.throttle import Throttle
from zbk.transport.inbound import Inbound
from zbk.transport.peers import Peer
from zbk.wire.messages import Read, ReadLac

IDENTITY_COUNT_MAX: Final = 4_096
"""Identities that are remembered; more, and those that wait for nothing are forgotten."""


class RateLimits(msgspec.Struct, frozen=True):
    """The rates of one identity; 0: no limit."""

    request_rate: int = 0  # requests a second
    size_rate: int = 0  # bytes a second
    fence_rate: int = 0  # fences a second

    @property
    def has_all(self) -> bool:
        """True when each request counts, not only fences."""
        return bool(self.request_rate or self.size_rate)


def is_fence(inbound: Inbound) -> bool:
    """Return whether a request fences a ledger."""
    request = inbound.request
    return isinstance(request, Read | ReadLac) and request.is_fencing


class IdentityRates:
    """What one identity has used of its rates."""

    __slots__ = ("_fences", "_requests", "_sizes", "fence_ms", "free_ms", "has_all")

    def __init__(self, limits: RateLimits) -> None:
        self.has_all = limits.has_all
        self.free_ms = 0  # from when its next request may be served
        self.fence_ms = 0  # and its next fence
        self._requests = Throttle(limits.request_rate)
        self._sizes = Throttle(limits.size_rate)
        self._fences = Throttle(limits.fence_rate)

    def change(self, limits: RateLimits) -> None:
        """Set other limits, which count from now on."""
        self.has_all = limits.has_all
        self.free_ms = self.fence_ms = 0
        self._requests.change(limits.request_rate)
        self._sizes.change(limits.size_rate)
        self._fences.change(limits.fence_rate)

    def spend(self, inbound: Inbound, now_ms: int) -> None:
        """Record that a request is served."""
        if self.has_all:
            wait_ms = max(
                self._requests.wait_ms(1, now_ms), self._sizes.wait_ms(inbound.size, now_ms)
            )
            self.free_ms = now_ms + wait_ms
        if is_fence(inbound):
            self.fence_ms = now_ms + self._fences.wait_ms(1, now_ms)


class RateTable:
    """The rates of all identities."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        self._by_identity: dict[str | bytes, IdentityRates] = {}
        self._without = IdentityRates(RateLimits())

    @property
    def has_all(self) -> bool:
        """True when each request counts, not only fences."""
        return self._limits.has_all

    def change(self, limits: RateLimits) -> None:
        """Set other limits, for all identities."""
        self._limits = limits
        for rates in self._by_identity.values():
            rates.change(limits)

    def of(self, inbound: Inbound, now_ms: int) -> IdentityRates:
        """Return the rates of the identity that a request comes from."""
        identity: str | bytes = inbound.peer
        peer = inbound.life
        if isinstance(peer, Peer):
            if peer.has_role:
                return self._without
            identity = peer.key or identity
        rates = self._by_identity.get(identity)
        if rates is None:
            if len(self._by_identity) >= IDENTITY_COUNT_MAX:
                self._forget_idle(now_ms)
            rates = self._by_identity[identity] = IdentityRates(self._limits)
        return rates

    def _forget_idle(self, now_ms: int) -> None:
        self._by_identity = {
            identity: rates
            for identity, rates in self._by_identity.items()
            if max(rates.free_ms, rates.fence_ms) > now_ms
        }
