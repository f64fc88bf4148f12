"""The credentials of a process: its key, and whether it insists on encryption.

    security     a client                               a bookie
    ---------    -----------------------------------    ------------------------------------------
    off          connects without encryption only       has one address, without encryption
    allowed      encrypts where the bookie has a key     has two addresses, one of each kind
    required     encrypts, or does not connect           has one address, with encryption
    auto         required with a key, else off          required with a key, else off

ZeroMQ decides by port which of the two a connection is: a CURVE socket refuses a peer without
encryption, and a plain one a peer with it. That is why a bookie that allows both has two addresses.

A client accepts one key of a bookie only: the one in the bookie's registration (``choose``).

Pure, but for reading the key's file.
"""

from typing import Final

import msgspec

from zbk.config import Security, SecurityConfig
from zbk.errors import InvalidOptionError
from zbk.security.keys import KeyPair, read_pair


class Credentials(msgspec.Struct, frozen=True):
    """The key of this process, and its ``security``, which is never ``auto``."""

    pair: KeyPair | None = None
    security: Security = "off"


ANONYMOUS: Final = Credentials()
"""Those of a process without a key."""


class Door(msgspec.Struct, frozen=True):
    """One way to connect to a bookie."""

    address: str
    public_key: str = ""  # the bookie's, to encrypt with; "": no encryption


class BookieDoors(msgspec.Struct, frozen=True):
    """The ways to connect to a bookie, as its registration has them."""

    address: str
    public_key: str = ""  # "": it has no key
    secure_address: str = ""  # "": ``address`` is encrypted, if there is a key

    @property
    def plain(self) -> Door | None:
        """The door without encryption; ``None`` if there is none."""
        if self.public_key and not self.secure_address:
            return None
        return Door(self.address)

    @property
    def encrypted(self) -> Door | None:
        """The door with encryption; ``None`` if there is none."""
        if not self.public_key:
            return None
        return Door(self.secure_address or self.address, self.public_key)


def choose(doors: BookieDoors, credentials: Credentials) -> Door | str:
    """Return the door of a bookie that a client uses, or why there is none, with the cure.

    >>> choose(BookieDoors("tcp://b:3181"), ANONYMOUS)
    Door(address='tcp://b:3181', public_key='')
    """
    has_key, security = credentials.pair is not None, credentials.security
    if has_key and security != "off" and doors.encrypted is not None:
        return doors.encrypted
    if security == "required":
        return (
            "it has no key, and this client requires encryption: give the bookie a key, or use "
            "security = allowed while keys are rolled out"
        )
    if doors.plain is not None:
        return doors.plain
    if not has_key:
        return (
            "it requires encryption, and this client has no key: give one with --key, ZBK_KEY or "
            "zbk.connect(key=...)"
        )
    return "it requires encryption, and this client has security = off: use required or allowed"


def security_of(security: Security, *, has_key: bool) -> Security:
    """Return the security that ``auto`` stands for.

    Raises:
        InvalidOptionError: it needs a key.
    """
    if security == "auto":
        return "required" if has_key else "off"
    if security == "required" and not has_key:
        raise InvalidOptionError("security", security, "needs a key: give --key, or ZBK_KEY")
    return security


def credentials_of(key: str, security: Security) -> Credentials:
    """Return the credentials that options name; ``key`` is the path of a private file, or "".

    Raises:
        KeyFileError: the file cannot be used.
        InvalidOptionError: the security needs a key.
    """
    pair = read_pair(key) if key else None
    return Credentials(pair, security_of(security, has_key=pair is not None))


def own_credentials(config: SecurityConfig) -> Credentials:
    """Return the credentials of this process. Raises as ``credentials_of``."""
    return credentials_of(config.key, config.security)
