"""A bare ``WriterCore`` with its bookies up or not, for tests that give it each event."""

import msgspec

from zbk.durability.level import level_of
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import SlotUp
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore

LEDGER_ID = 7
DIGEST = digest_function(DigestType.XXH3, b"", LEDGER_ID)


def make_writer(
    quorum: Quorum, ledger_type: LedgerType = LedgerType.PD_JOURNAL, **limits: int
) -> WriterCore:
    """Return a writer whose bookies b0, b1, ... are not up yet."""
    return WriterCore(
        LEDGER_ID,
        quorum,
        level_of(ledger_type),
        ensemble=[f"b{slot}" for slot in range(quorum.ensemble_size)],
        digest_type=DigestType.XXH3,
        digest=DIGEST,
        limits=msgspec.convert(limits, WriterLimits),
    )


def writer_up(
    quorum: Quorum, ledger_type: LedgerType = LedgerType.PD_JOURNAL, **limits: int
) -> WriterCore:
    """Return a writer whose bookies are all up."""
    core = make_writer(quorum, ledger_type, **limits)
    for slot in range(quorum.ensemble_size):
        core.handle(SlotUp(slot, 1), 0)
    return core
