"""The key and type of a ledger whose index is lost, from the cluster's metadata.

The metadata of ledgers that an old zbk made have no key; then the empty password and the given ones
are tried.
"""

from collections.abc import Sequence

from zbk.errors import InvalidOptionError, NoSuchLedgerError
from zbk.metadata.records.ledgers import LedgerStore
from zbk.protocol.entry.digest import is_same_secret, ledger_key, password_digest
from zbk.storage.tools.rebuild_sources import LedgerSecret


def secret_of(
    ledgers: LedgerStore, ledger_id: int, passwords: Sequence[bytes] = ()
) -> LedgerSecret | None:
    """Return the key and the type of a ledger; ``None``: it was deleted.

    Raises:
        InvalidOptionError: only its password gives the key, and it is not among these.
        MetadataUnavailableError: the metadata store does not answer.
    """
    try:
        metadata, _ = ledgers.read(ledger_id, is_fresh=True)
    except NoSuchLedgerError:
        return None
    if metadata.ledger_key:
        return LedgerSecret(metadata.ledger_key, metadata.ledger_type)
    for password in (b"", *passwords):
        if is_same_secret(password_digest(password, ledger_id), metadata.password_digest):
            return LedgerSecret(ledger_key(password, ledger_id), metadata.ledger_type)
    raise InvalidOptionError(
        "password",
        "...",
        f"the index of ledger {ledger_id} is lost, and the bookie needs its password again: "
        "give --password-file",
    )
