"""The passwords of the ledgers of a run, and what clients derive from them.

A password follows from the ledger's id. So a bookie's oracle knows each key without being told, and
no seed means something else because there are several passwords.
"""

from functools import cache
from typing import Final

from zbk.protocol.entry.digest import ledger_key

PASSWORDS: Final = (b"secret", b"", b"another secret")
WRONG_PASSWORD: Final = b"guessed"


def password_of(ledger_id: int) -> bytes:
    """Return the password of a ledger."""
    return PASSWORDS[ledger_id % len(PASSWORDS)]


@cache
def key_of(ledger_id: int) -> bytes:
    """Return the key that bookies ask for."""
    return ledger_key(password_of(ledger_id), ledger_id)


@cache
def wrong_key_of(ledger_id: int) -> bytes:
    """Return the key of a client that does not know the password."""
    return ledger_key(WRONG_PASSWORD, ledger_id)
