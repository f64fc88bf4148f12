"""Ledgers for the auditor, made of little."""

from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata


def ledger(
    ledger_id: int,
    *ensembles: tuple[str, ...],
    starts: tuple[int, ...] = (0,),
    last: int | None = 9,
    write_quorum_size: int | None = None,
    ledger_type: LedgerType = LedgerType.PD_JOURNAL,
) -> LedgerMetadata:
    """Return a ledger closed at ``last`` (``None``: open), with a fragment for each ensemble."""
    size = len(ensembles[0])
    write_size = size if write_quorum_size is None else write_quorum_size
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=size,
        write_quorum_size=write_size,
        ack_quorum_size=min(2, write_size),
        ledger_type=ledger_type,
        digest_type=DigestType.XXH3,
        password_digest=b"",
        fragments=tuple(Fragment(a, b) for a, b in zip(starts, ensembles, strict=True)),
        created_ms=0,
        creation_token=f"t{ledger_id}",
        state=LedgerState.OPEN if last is None else LedgerState.CLOSED,
        last_entry_id=last,
        length=None if last is None else 100,
    )
