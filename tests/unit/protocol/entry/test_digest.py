"""Digests and the keys that a password gives."""

import pytest

from zbk.protocol.entry.digest import (
    DIGEST_CODE,
    DIGEST_SIZE_BY_CODE,
    LEDGER_KEY_SIZE,
    checksum,
    digest_function,
    is_same_secret,
    ledger_key,
    password_digest,
)
from zbk.protocol.entry.words import DigestType


def test_keys_of_version_1_never_change() -> None:
    assert ledger_key(b"secret", 7).hex() == "b1539344498e59ceea9b170f912ad4dd"
    assert password_digest(b"secret", 7).hex() == "771c9b3f985e4ce30727eb03d216cb88"
    assert ledger_key(b"", 0).hex() == "aa0bf3619b5467435041f42265a6749c"


def test_every_secret_of_every_ledger_is_another_one() -> None:
    secrets = [
        function(password, ledger_id)
        for function in (ledger_key, password_digest)
        for password in (b"", b"secret", b"secret\0", b"s" * 1000)
        for ledger_id in (0, 7, 2**63 - 1)
    ]

    assert len(set(secrets)) == len(secrets)
    assert {len(secret) for secret in secrets} == {LEDGER_KEY_SIZE}


def test_the_verifier_in_the_metadata_is_not_what_bookies_are_shown() -> None:
    assert password_digest(b"secret", 7) != ledger_key(b"secret", 7)
    assert password_digest(ledger_key(b"secret", 7), 7) != password_digest(b"secret", 7)


@pytest.mark.parametrize("digest_type", list(DigestType))
def test_a_digest_has_the_size_that_the_header_promises(digest_type: DigestType) -> None:
    digest = digest_function(digest_type, b"secret", 7)

    assert len(digest(b"data")) == DIGEST_SIZE_BY_CODE[DIGEST_CODE[digest_type]]
    assert digest(b"data") == digest(memoryview(b"data"))


def test_a_mac_depends_on_password_and_ledger() -> None:
    macs = {
        digest_function(DigestType.MAC, password, ledger_id)(b"data")
        for password in (b"", b"secret")
        for ledger_id in (7, 8)
    }

    assert len(macs) == 4


def test_a_checksum_can_be_chained() -> None:
    assert checksum(b"zbk") == 0x382282448B381518
    assert checksum(b"b", checksum(b"a")) != checksum(b"b")


def test_secrets_are_compared_as_wholes() -> None:
    assert is_same_secret(b"secret", b"secret")
    assert not is_same_secret(b"secret", b"secre")
    assert not is_same_secret(b"secret", b"Secret")
