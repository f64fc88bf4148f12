"""How a writer closes its ledger in the metadata: what it may do with what it finds there.

Source: "The BookKeeper protocol", Closing a ledger as a writer. Decision: a ledger IN_RECOVERY is
an error for its writer, as the page says (BookKeeper's code overrides it; both are safe, because
the recoverer's closing compare-and-swap decides).
"""

from zbk.errors import LedgerClosedError, LedgerFencedError
from zbk.protocol.ledger_metadata import LedgerMetadata
from zbk.protocol.words import LedgerState


def close_by_writer(
    current: LedgerMetadata, last_entry_id: int, length: int
) -> LedgerMetadata | None:
    """Return the metadata to write, or ``None`` if the ledger is closed just so already.

    Raises:
        LedgerFencedError: somebody recovers it; what is acknowledged stays in the ledger.
        LedgerClosedError: somebody closed it at another end.
    """
    match current.state:
        case LedgerState.OPEN:
            return current.with_closed(last_entry_id, length)
        case LedgerState.IN_RECOVERY:
            raise LedgerFencedError(current.ledger_id)
        case LedgerState.CLOSED:
            if (current.last_entry_id, current.length) == (last_entry_id, length):
                return None
            raise LedgerClosedError(current.ledger_id, current.last_entry_id)
