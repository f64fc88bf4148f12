"""One bookie with a striped VD ledger, and what one asks of it."""

from array import array
from collections.abc import Sequence
from typing import Final

import msgspec
import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.stripe import Stripe
from zbk.wire.codec import encode_ids
from zbk.wire.messages import GetLedgerInfo, LedgerInfo, Sync, SyncAnswer

JOURNALED: Final = LedgerType.VD_JOURNAL
BYPASS: Final = LedgerType.VD_BYPASS_JOURNAL
BOTH: Final = pytest.mark.parametrize("kind", [JOURNALED, BYPASS])
STRIPE: Final = Stripe(4, 2, 0)  # 0 3 4 7 8 11
OTHER: Final = Stripe(4, 2, 2)  # 1 2 5 6 9 10
UNSET: Final = msgspec.UNSET


def bookie(disk: SimulatedDisk) -> World:
    """Start a bookie on this disk."""
    return World(disk, "/b", segment_size=1 << 16)


def add_due(
    world: World,
    kind: LedgerType,
    ids: Sequence[int],
    stripe: Stripe | None = STRIPE,
    *,
    lac: int = NO_ENTRY,
    is_recovery: bool = False,
) -> None:
    """Send these entries, and write them."""
    payloads = [b"<%03d>" % one for one in ids]
    of = batch(ids[0], payloads, array("q", ids), lac=lac)
    request, *frames = add(of, kind=kind, lac=lac, is_recovery=is_recovery)
    request = msgspec.structs.replace(request, is_striped=True, stripe=stripe or UNSET)
    world.say(request, *frames, encode_ids(ids))
    world.written()


def sync(world: World, stripe: Stripe | None = STRIPE, *, lac: int = NO_ENTRY) -> int:
    """Sync; return the cursor that is answered."""
    world.say(
        Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=lac, stripe=stripe or UNSET)
    )
    world.sync_logs()
    world.settle_journal()
    answer = world.answers[-1]
    assert isinstance(answer, SyncAnswer), answer
    return answer.last_add_synced


def shown(world: World, stripe: Stripe | None) -> int:
    """Return the cursor that a look at the ledger shows, without an fsync."""
    asked = GetLedgerInfo(
        request_id=8, ledger_id=LEDGER_ID, is_at_once=True, stripe=stripe or UNSET
    )
    world.say(asked)
    answer = world.answers[-1]
    assert isinstance(answer, LedgerInfo), answer
    return answer.last_add_synced
