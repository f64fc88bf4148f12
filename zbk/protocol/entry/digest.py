"""Digests of entries and batches, and the keys derived from a ledger's password.

The only module that imports ``xxhash``. Everything here is a function of its arguments.

* ``digest_function`` computes the digest of an entry's header and payload, ``digest_of_parts`` that
  of the two apart.
* ``checksum`` protects batches on the wire and records on disk against damage, not forgery.
* ``ledger_key`` is the key that a client shows to bookies, ``password_digest`` the value that the
  metadata keep of it. The MAC key is a third, independent key. None can be derived from another.

Source: BookKeeper's ``DigestManager`` and ``MacDigestManager`` (master key and MAC key derived
from the password under two names); ours are BLAKE2b with personalization, salted by ledger id.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final

import xxhash

from zbk.protocol.entry.words import DigestType

LEDGER_KEY_SIZE: Final = 16

DIGEST_CODE: Final = {DigestType.NONE: 0, DigestType.XXH3: 1, DigestType.MAC: 2}
DIGEST_SIZE_BY_CODE: Final = (0, 8, 16)
"""Bytes of digest after the payload, by the code in the entry header."""

DigestFunction = Callable[[bytes | memoryview], bytes]


def checksum(data: bytes | bytearray | memoryview, seed: int = 0) -> int:
    """Return the 64-bit XXH3 of ``data``; ``seed`` chains it to the data before.

    >>> hex(checksum(b"zbk"))
    '0x382282448b381518'
    """
    return xxhash.xxh3_64_intdigest(data, seed)


def digest_function(digest_type: DigestType, password: bytes, ledger_id: int) -> DigestFunction:
    """Return the function from an entry's header and payload to its digest bytes."""
    match digest_type:
        case DigestType.XXH3:
            return xxhash.xxh3_64_digest
        case DigestType.MAC:
            key = _derive(password, ledger_id, b"zbk entry mac")

            def mac(data: bytes | memoryview) -> bytes:
                return hashlib.blake2b(data, digest_size=16, key=key).digest()

            return mac
        case DigestType.NONE:
            return _no_digest


def digest_of_parts(digest: DigestFunction, header: bytes, payload: bytes) -> bytes:
    """Return the digest of a header and a large payload; with the default type nothing is copied.

    >>> plain = digest_function(DigestType.XXH3, b"", 7)
    >>> digest_of_parts(plain, b"head", b"payload") == plain(b"headpayload")
    True
    """
    if digest is not xxhash.xxh3_64_digest:
        return digest(header + payload)
    state = xxhash.xxh3_64(header)
    state.update(payload)
    return state.digest()


def ledger_key(password: bytes, ledger_id: int) -> bytes:
    """Return the key that proves to a bookie that a client knows the password."""
    return _derive(password, ledger_id, b"zbk ledger key")


def password_digest(password: bytes, ledger_id: int) -> bytes:
    """Return the digest of the password that the ledger's metadata keep."""
    return _derive(ledger_key(password, ledger_id), ledger_id, b"zbk verifier")


def is_same_secret(one: bytes, other: bytes) -> bool:
    """Return whether two secrets are equal, in constant time."""
    return hmac.compare_digest(one, other)


def _no_digest(_data: bytes | memoryview) -> bytes:
    return b""


def _derive(secret: bytes, ledger_id: int, purpose: bytes) -> bytes:
    salt = ledger_id.to_bytes(8, "little")
    key = hashlib.blake2b(secret, digest_size=32).digest()  # any password length
    return hashlib.blake2b(
        key, digest_size=LEDGER_KEY_SIZE, person=purpose.ljust(16, b"\0"), salt=salt
    ).digest()
