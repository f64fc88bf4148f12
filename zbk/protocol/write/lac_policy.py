"""What a writer needs to know of its ledger's durability level.

Two ports, declared beside the code that needs them: ``protocol`` may not import ``durability``,
where the levels are. ``zbk.durability.level.DurabilityLevel`` is the whole interface of a level;
``WriterLevel`` is the part of it that a writer uses.

Source: the relaxed-durability proposal, section LAC Advance Protocol.
"""

from typing import Protocol

from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.ledger.stripe import Stripe, stripes_of


class LacPolicy(Protocol):
    """How a writer's LAC follows from what bookies acknowledged and from what they synced."""

    @property
    def lac(self) -> int:
        """Highest id up to which everything is durable on an ack quorum, or -1."""
        ...

    def on_acked(self, last_acked_id: int) -> None:
        """Record that every entry up to ``last_acked_id`` was acknowledged by an ack quorum."""
        ...

    def on_synced(self, slot: int, incarnation: int, last_add_synced: int) -> None:
        """Record what a bookie said of its sync cursor.

        With a higher incarnation than before, whatever the slot said earlier is void. -1 says
        nothing beyond that.
        """
        ...

    def on_replaced(self, slot: int, confirmed_id: int) -> None:
        """Record that another bookie is in the slot: what was said before is void.

        ``confirmed_id`` is the writer's LAC: what lies after it is not durable until the bookies
        that are there now say so. The policy's LAC may fall back to it.
        """
        ...


class WriterLevel(Protocol):
    """A durability level as a writer sees it."""

    @property
    def has_sync_cursor(self) -> bool:
        """True when a bookie tracks what it has synced of each such ledger.

        Then clients that do not write the ledger can sync it, and find out how far it is durable.
        """
        ...

    @property
    def restart_revokes_acks(self) -> bool:
        """True when a bookie that restarted may have lost what it acknowledged."""
        ...

    def new_lac_policy(self, quorum: Quorum) -> LacPolicy:
        """Return the LAC policy of one writer, fresh."""
        ...


def cursor_stripes(quorum: Quorum, level: WriterLevel) -> tuple[Stripe | None, ...]:
    """Return what the sync cursor of each slot's bookie counts; ``None``: all entries, or nothing.

    A bookie is told it with each add and each sync.
    """
    return stripes_of(quorum) if level.has_sync_cursor else (None,) * quorum.ensemble_size
