"""What the ledgers of a run hold, made from numbers."""

import random
from collections.abc import Iterator
from typing import Final

import msgspec

import zbk
from zbk.protocol.entry.entry import entry_size
from zbk.protocol.entry.words import DigestType

KIB: Final = 1024
MIB: Final = 1024 * KIB

LEDGER_SIZES: Final = (64 * KIB, 512 * KIB, 2 * MIB, 8 * MIB)
"""Bytes of payload after which a ledger is closed."""

PAYLOAD_SIZES: Final = ((0, 40), (20, 300), (500, 3_000), (4_000, 60_000))
"""Smallest and largest payload of a batch."""

QUORUMS: Final = ((3, 3, 2), (3, 3, 2), (2, 2, 2), (3, 2, 2))
"""Ensemble, write quorum, ack quorum."""

BATCH_SIZE: Final = 64 * KIB
ENTRY_COUNT_MAX: Final = 400  # of a batch


class Plan(msgspec.Struct, frozen=True):
    """A ledger as it was drawn."""

    seed: int
    size: int  # bytes of payload
    ledger_type: zbk.LedgerType
    quorums: tuple[int, int, int]

    @classmethod
    def drawn(cls, dice: random.Random) -> "Plan":
        """Return a new one."""
        ledger_type = dice.choice(list(zbk.LedgerType))
        quorums = dice.choice(QUORUMS)
        return cls(dice.randrange(2**32), dice.choice(LEDGER_SIZES), ledger_type, quorums)

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the payloads, the same ones each time."""
        dice = random.Random(self.seed)
        left = self.size
        while left > 0:
            low, high = dice.choice(PAYLOAD_SIZES)
            count = max(1, min(ENTRY_COUNT_MAX, 2 * BATCH_SIZE // (low + high)))
            batch = [dice.randbytes(dice.randint(low, high)) for _ in range(count)]
            left -= sum(map(len, batch)) + count  # empty ones count, too
            yield batch

    def payloads(self, count: int) -> Iterator[bytes]:
        """Yield the first ``count`` payloads."""
        for batch in self.batches():
            yield from batch[:count]
            count -= len(batch)
            if count <= 0:
                return


def stored_size(payload: bytes) -> int:
    """Return the bytes that an entry takes in an entry log."""
    return entry_size(len(payload), DigestType.XXH3)
