"""What a writer needs to know of its ledger's durability level.

Two ports, declared beside the code that needs them: ``protocol`` may not import ``durability``,
where the levels are. ``zbk.durability.level.DurabilityLevel`` is the whole interface of a level;
``WriterLevel`` is the part of it that a writer uses.

Source: the relaxed-durability proposal, section LAC Advance Protocol.
"""

from typing import Protocol

from zbk.protocol.quorum import Quorum


class LacPolicy(Protocol):
    """How a writer's LAC follows from what bookies acknowledged and from what they synced."""

    @property
    def lac(self) -> int:
        """Highest id up to which everything is durable on an ack quorum, or -1. Only grows."""
        ...

    def on_acked(self, last_acked_id: int) -> None:
        """Note that every entry up to ``last_acked_id`` was acknowledged by an ack quorum."""
        ...

    def on_synced(self, slot: int, incarnation: int, last_add_synced: int) -> None:
        """Note what a bookie said of its sync cursor.

        With a higher incarnation than before, whatever the slot said earlier is void. -1 says
        nothing beyond that.
        """
        ...


class WriterLevel(Protocol):
    """A durability level as a writer sees it."""

    @property
    def restart_revokes_acks(self) -> bool:
        """True when a bookie that restarted may have lost what it acknowledged."""
        ...

    @property
    def allows_ensemble_change(self) -> bool:
        """True when the writer may put another bookie in the place of one that failed."""
        ...

    def check_quorum(self, quorum: Quorum) -> None:
        """Accept sizes that this level can work with.

        Raises:
            UnsupportedLedgerError: it can not.
        """
        ...

    def new_lac_policy(self, quorum: Quorum) -> LacPolicy:
        """Return the LAC policy of one writer, fresh."""
        ...
