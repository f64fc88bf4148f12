"""The metadata of one ledger in each state, and copies that differ in some fields."""

import msgspec

from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata

OPEN = LedgerMetadata(
    ledger_id=7,
    ensemble_size=3,
    write_quorum_size=2,
    ack_quorum_size=2,
    ledger_type=LedgerType.PD_JOURNAL,
    digest_type=DigestType.XXH3,
    password_digest=b"p" * 16,
    fragments=(Fragment(0, ("a", "b", "c")),),
    created_ms=1_700_000_000_000,
    creation_token="token",
    custom_metadata={"job": b"nightly"},
)
LONGER = OPEN.with_new_fragment(10, ("a", "d", "c"))
IN_RECOVERY = LONGER.with_recovery()
CLOSED = LONGER.with_closed(19, 2_000)


def changed(metadata: LedgerMetadata, **fields: object) -> LedgerMetadata:
    """Return the metadata with these fields changed."""
    return msgspec.structs.replace(metadata, **fields)
