"""A client that does not know the passwords of the ledgers, and asks all the same.

It fences, reads, adds (as a writer and as a recovery), tells a LAC and syncs. Every bookie has to
refuse that; the oracle of the bookie judges it, and that nothing changes.
"""

from collections.abc import Callable
from typing import Final

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.passwords import WRONG_PASSWORD, wrong_key_of
from tests.simulation.world import World
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.transport.events import News
from zbk.wire.codec import encode_batch
from zbk.wire.messages import Add, Read, ReadLac, Request, Sync, WriteLac

LAC: Final = 1_000
"""Higher than any that is true."""

Wrong = tuple[Request, tuple[bytes, ...]]


class SimulatedIntruder:
    """Asks one bookie after the other for what it may not have, until faults stop."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.node = Node(world.kernel, name)
        self._pool = ClientPool(world.network, self.node, world.request_timeout_ms)
        self._kinds: tuple[Callable[[LedgerMetadata], Wrong], ...] = (
            self._fence, self._add, self._lac, self._read, self._sync,
        )  # fmt: skip
        self.is_over = False
        self._act()

    def _key_of(self, ledger_id: int) -> bytes:
        return wrong_key_of(ledger_id)

    def _password_of(self, _ledger_id: int) -> bytes:
        return WRONG_PASSWORD

    def _victims(self) -> list[int]:
        """Return the ledgers that it asks about."""
        return sorted(self._world.metadata.current)

    def crash(self) -> None:
        """End the process."""
        self.node.die()
        self._pool.close()
        self.is_over = True

    def _act(self) -> None:
        world, tape = self._world, self._world.tape
        if world.is_ending:
            self.is_over = True
            return
        victims = self._victims()
        if victims:
            metadata = world.current(tape.pick(victims))
            request, frames = tape.pick(self._kinds)(metadata)
            bookie_id = tape.pick(metadata.last_fragment.bookies)
            self._pool.request(bookie_id, request, frames, None, self._on_reply)
        self.node.after((1 + tape.draw(8)) * 20 * MS, self._act)

    def _on_reply(self, _news: News) -> None:
        """Go on: the bookie's oracle judges what became of it."""

    # ------------------------------------------------------------------ what it asks

    def _fence(self, metadata: LedgerMetadata) -> Wrong:
        request = ReadLac(
            request_id=0,
            ledger_id=metadata.ledger_id,
            ledger_key=self._key_of(metadata.ledger_id),
            ledger_type=metadata.ledger_type,
            is_fencing=True,
        )
        return request, ()

    def _read(self, metadata: LedgerMetadata) -> Wrong:
        request = Read(
            request_id=0,
            ledger_id=metadata.ledger_id,
            ledger_key=self._key_of(metadata.ledger_id),
            ledger_type=metadata.ledger_type,
            first_entry_id=0,
            last_entry_id=0,
            size_max=self._world.read_size_max,
            is_fencing=bool(self._world.tape.draw(2)),
        )
        return request, ()

    def _lac(self, metadata: LedgerMetadata) -> Wrong:
        request = WriteLac(
            request_id=0,
            ledger_id=metadata.ledger_id,
            ledger_key=self._key_of(metadata.ledger_id),
            ledger_type=metadata.ledger_type,
            lac=LAC,
        )
        return request, ()

    def _sync(self, metadata: LedgerMetadata) -> Wrong:
        request = Sync(
            request_id=0,
            ledger_id=metadata.ledger_id,
            ledger_key=self._key_of(metadata.ledger_id),
            lac=LAC,
        )
        return request, ()

    def _add(self, metadata: LedgerMetadata) -> Wrong:
        ledger_id, tape = metadata.ledger_id, self._world.tape
        entry_id = tape.draw(16)
        digest = digest_function(metadata.digest_type, self._password_of(ledger_id), ledger_id)
        ids = range(entry_id, entry_id + 1)
        body, sizes = encode_entries(
            ledger_id, ids, LAC, 0, [b"forged"], metadata.digest_type, digest
        )
        batch = EntryBatch.of(ledger_id, ids, sizes, body)
        request = Add(
            request_id=0,
            ledger_id=ledger_id,
            ledger_key=self._key_of(ledger_id),
            ledger_type=metadata.ledger_type,
            first_entry_id=entry_id,
            count=1,
            lac=LAC,
            checksum=batch.checksum,
            is_recovery=bool(tape.draw(2)),
        )
        return request, tuple(bytes(frame) for frame in encode_batch(batch))
