"""CURVE, the encryption of libzmq: new keys, the options of sockets, and whether libzmq has it.

Older versions than ``VERSION_MIN`` let a peer without a key stop a CURVE server, or write beyond a
buffer (GLSA 201908-17 and 202009-12), so that they do not count as encryption here.
"""

from typing import Final, Protocol

import msgspec
import zmq

from zbk.errors import KeyFileError, MissingDependencyError
from zbk.security.credentials import Credentials
from zbk.security.keys import KeyPair

VERSION_MIN: Final = (4, 3, 5)

DOMAIN: Final = b"zbk"
"""The ZAP domain of encrypted endpoints. With one, libzmq admits no peer without an answer."""


class Libzmq(Protocol):
    """The library under the sockets. Tests have one that is older."""

    @property
    def version(self) -> tuple[int, int, int]:
        """Its version."""
        ...

    @property
    def has_curve(self) -> bool:
        """True if it was built with CURVE."""
        ...


class InstalledLibzmq(msgspec.Struct, frozen=True):
    """The libzmq that this process has loaded."""

    @property
    def version(self) -> tuple[int, int, int]:
        """Its version."""
        return zmq.zmq_version_info()

    @property
    def has_curve(self) -> bool:
        """True if it was built with CURVE."""
        return bool(zmq.has("curve"))


INSTALLED: Final = InstalledLibzmq()


def check_curve(credentials: Credentials, libzmq: Libzmq = INSTALLED) -> None:
    """Check that connections can be as these credentials want them.

    Raises:
        MissingDependencyError: encryption is wanted, and libzmq is too old, or lacks CURVE.
        KeyFileError: the two halves of the key do not belong together.
    """
    pair = credentials.pair
    if pair is None or credentials.security == "off":
        return
    needed = f"security = {credentials.security} needs libzmq {_text(VERSION_MIN)} with CURVE"
    cure = "install pyzmq from its wheel, which has it, or build pyzmq against such a libzmq"
    if tuple(libzmq.version) < VERSION_MIN:
        raise MissingDependencyError(f"{needed}, this is {_text(libzmq.version)}", cure)
    if not libzmq.has_curve:
        raise MissingDependencyError(f"{needed}, and this one was built without CURVE", cure)
    if zmq.curve_public(pair.secret_key.encode()).decode() != pair.public_key:
        raise KeyFileError(pair.name, "its public key does not belong to its secret key")


def new_pair(name: str, libzmq: Libzmq = INSTALLED) -> KeyPair:
    """Return a new pair of keys.

    Raises:
        MissingDependencyError: libzmq lacks CURVE.
    """
    if not libzmq.has_curve:
        raise MissingDependencyError("libzmq was built without CURVE", "install pyzmq's wheel")
    public_key, secret_key = zmq.curve_keypair()
    return KeyPair(name, public_key.decode(), secret_key.decode())


def serve_encrypted(socket: "zmq.Socket[bytes]", pair: KeyPair) -> None:
    """Make the endpoints that a socket binds from now on accept encrypted connections only."""
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret_key.encode())
    socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)


def connect_encrypted(socket: "zmq.Socket[bytes]", pair: KeyPair, server_key: str) -> None:
    """Make a socket connect encrypted, and to one server key only."""
    socket.setsockopt(zmq.CURVE_SERVERKEY, server_key.encode())
    socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public_key.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret_key.encode())


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
