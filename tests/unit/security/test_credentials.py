"""How a client connects to a bookie: every security of the one with every one of the other."""

from pathlib import Path
from typing import Literal

import pytest

from zbk.config import Security, SecurityConfig
from zbk.errors import InvalidOptionError, KeyFileError
from zbk.security.credentials import (
    ANONYMOUS,
    BookieDoors,
    Credentials,
    Door,
    choose,
    credentials_of,
    own_credentials,
)
from zbk.security.keys import KeyPair, write_pair
from zbk.transport.curve import new_pair

PAIR = KeyPair("alice", "a" * 40, "b" * 40)
KEY = "k" * 40
OFF = BookieDoors("tcp://b:1")
REQUIRED = BookieDoors("tcp://b:1", KEY)
ALLOWED = BookieDoors("tcp://b:1", KEY, "tcp://b:2")
PLAIN, ENCRYPTED, SECOND = Door("tcp://b:1"), Door("tcp://b:1", KEY), Door("tcp://b:2", KEY)

Result = Door | Literal["no key", "bookie has none", "off"]


@pytest.mark.parametrize(
    ("pair", "security", "off", "allowed", "required"),
    [
        (None, "off", PLAIN, PLAIN, "no key"),
        (None, "allowed", PLAIN, PLAIN, "no key"),
        (PAIR, "off", PLAIN, PLAIN, "off"),
        (PAIR, "allowed", PLAIN, SECOND, ENCRYPTED),
        (PAIR, "required", "bookie has none", SECOND, ENCRYPTED),
    ],
)
def test_the_door_follows_from_both_sides(
    pair: KeyPair | None, security: Security, off: Result, allowed: Result, required: Result
) -> None:
    texts = {
        "no key": "this client has no key",
        "bookie has none": "it has no key",
        "off": "this client has security = off",
    }
    for doors, expected in ((OFF, off), (ALLOWED, allowed), (REQUIRED, required)):
        found = choose(doors, Credentials(pair, security))
        if isinstance(expected, Door):
            assert found == expected
        else:
            assert isinstance(found, str)
            assert texts[expected] in found


def test_auto_requires_encryption_once_there_is_a_key(tmp_path: Path) -> None:
    private, _public = write_pair(tmp_path, new_pair("alice"))

    assert credentials_of("", "auto") == ANONYMOUS
    assert credentials_of(str(private), "auto").security == "required"
    assert own_credentials(SecurityConfig(key=str(private), security="off")).security == "off"


def test_encryption_cannot_be_required_without_a_key() -> None:
    with pytest.raises(InvalidOptionError, match="needs a key"):
        credentials_of("", "required")


def test_a_key_that_cannot_be_read_is_no_reason_to_go_on_without(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError):
        credentials_of(str(tmp_path / "gone.key"), "allowed")
