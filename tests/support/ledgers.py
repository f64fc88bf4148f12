"""Ledger metadata as tests need it."""

from collections.abc import Callable
from uuid import uuid4

from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata


def metadata_maker(
    *,
    has_writer: bool = True,
    bookies: tuple[str, ...] = ("b1", "b2", "b3"),
    ledger_type: LedgerType = LedgerType.PD_JOURNAL,
) -> Callable[[int], LedgerMetadata]:
    """Return what ``LedgerStore.create`` wants, with one creation token for one create."""
    token = uuid4().hex

    def make(ledger_id: int) -> LedgerMetadata:
        return LedgerMetadata(
            ledger_id=ledger_id,
            ensemble_size=3,
            write_quorum_size=3,
            ack_quorum_size=2,
            ledger_type=ledger_type,
            digest_type=DigestType.XXH3,
            password_digest=b"",
            fragments=(Fragment(0, bookies),),
            created_ms=0,
            creation_token=token,
            has_writer=has_writer,
        )

    return make
