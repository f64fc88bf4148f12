"""A client that claims ledgers which nobody has made yet: fences them, fills them, tells their LAC.

It does not know their passwords: what it asks of a ledger that was made meanwhile is refused, too.
"""

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.world import World
from zbk.protocol.entry.digest import LEDGER_KEY_SIZE, digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerType
from zbk.transport.events import News
from zbk.wire.codec import encode_batch
from zbk.wire.messages import Add, ReadLac, Request, WriteLac

AHEAD_COUNT = 3
"""How many of the next ids it claims."""


class SimulatedClaimer:
    """Claims one id at one bookie after the other, until faults stop."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.node = Node(world.kernel, name)
        self._pool = ClientPool(world.network, self.node, world.request_timeout_ms)
        self.is_over = False
        self._act()

    def crash(self) -> None:
        """End the process."""
        self.node.die()
        self._pool.close()
        self.is_over = True

    def _act(self) -> None:
        world, tape = self._world, self._world.tape
        bookies = world.candidates()
        if world.is_ending:
            self.is_over = True
            return
        if bookies:
            ledger_id = max(world.metadata.ever, default=-1) + 1 + tape.draw(AHEAD_COUNT)
            request, frames = self._claim(ledger_id)
            self._pool.request(bookies[0], request, frames, None, self._on_reply)
        self.node.after((1 + tape.draw(8)) * 20 * MS, self._act)

    def _on_reply(self, _news: News) -> None:
        """Claim on: the bookie's oracle judges what became of it."""

    def _claim(self, ledger_id: int) -> tuple[Request, tuple[bytes, ...]]:
        tape = self._world.tape
        key = bytes(LEDGER_KEY_SIZE)
        kind = tape.pick((LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL))
        match tape.draw(3):
            case 0:
                return ReadLac(
                    request_id=0,
                    ledger_id=ledger_id,
                    ledger_key=key,
                    ledger_type=kind,
                    is_fencing=True,
                ), ()
            case 1:
                return WriteLac(
                    request_id=0, ledger_id=ledger_id, ledger_key=key, ledger_type=kind, lac=3
                ), ()
            case _:
                return self._add(ledger_id, key, kind)

    def _add(
        self, ledger_id: int, key: bytes, kind: LedgerType
    ) -> tuple[Request, tuple[bytes, ...]]:
        digest = digest_function(DigestType.XXH3, b"", ledger_id)
        body, sizes = encode_entries(
            ledger_id, range(1), NO_ENTRY, 0, [b"claimed"], DigestType.XXH3, digest
        )
        batch = EntryBatch.of(ledger_id, range(1), sizes, body)
        request = Add(
            request_id=0,
            ledger_id=ledger_id,
            ledger_key=key,
            ledger_type=kind,
            first_entry_id=0,
            count=1,
            lac=NO_ENTRY,
            checksum=batch.checksum,
        )
        return request, encode_batch(batch)
