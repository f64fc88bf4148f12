"""The kazoo client of a connection: how it connects, encrypts, and says who it is.

A user authenticates in each new session, before any request, with ``digest`` (any ZooKeeper
accepts it, and checks it against the access lists of nodes) or with ``sasl`` (DIGEST-MD5: the
server knows its users and ends the connection of others). kazoo needs the package ``pure-sasl`` for
the latter.

With ``zk+tls://`` the connection is encrypted, and the name or address in the URI must be one of
the server's certificate. Decision: kazoo's own TLS always trusts the authorities of the machine
too, and by default compares no names; here a given file of authorities is the only one trusted.

Any thread.
"""

import importlib.util
import logging
import socket
import ssl
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler

from zbk.config import MetadataAccess
from zbk.errors import InvalidOptionError, KeyFileError, MissingDependencyError
from zbk.metadata.stores.access import SASL, StoreUser
from zbk.metadata.stores.zookeeper_address import ZooKeeperAddress

SASL_CURE: Final = "pip install 'zbk[sasl]', or set metadata_auth = \"digest\""

_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 2.0, "max_jitter": 0.4}

logging.getLogger("kazoo").addHandler(logging.NullHandler())


class _Demoted(logging.LoggerAdapter[logging.Logger]):
    """The logger for kazoo, whose lines are at most at INFO."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:  # noqa: ANN401 - as in logging
        super().log(min(level, logging.INFO), msg, *args, **kwargs)


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's threads, and connections with TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str,
        timeout: float,
        **_others: object,  # what kazoo's own TLS needs
    ) -> ssl.SSLSocket:
        """Connect to a server and check its certificate."""
        plain = socket.create_connection(address, timeout)
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise


def new_client(
    place: ZooKeeperAddress,
    session_timeout_ms: int,
    user: StoreUser | None,
    context: ssl.SSLContext | None,
) -> KazooClient:
    """Return a client that is not connected yet.

    Raises:
        MissingDependencyError: the user authenticates with SASL, and there is no ``pure-sasl``.
    """
    more: dict[str, Any] = {}
    if user is not None and user.auth == SASL:
        if importlib.util.find_spec("puresasl") is None:
            raise MissingDependencyError("no pure-sasl for metadata_auth = sasl", SASL_CURE)
        more["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": user.name,
            "password": user.password,
        }
    elif user is not None:
        more["auth_data"] = [(user.auth, f"{user.name}:{user.password}")]
    if context is not None:
        more |= {"use_ssl": True, "handler": _TlsHandler(context)}
    return KazooClient(
        hosts=place.hosts,
        timeout=session_timeout_ms / 1000,
        connection_retry=dict(_RECONNECT),
        logger=_Demoted(logging.getLogger("zbk.metadata")),
        **more,
    )


def tls_context(place: ZooKeeperAddress, access: MetadataAccess) -> ssl.SSLContext | None:
    """Return whom a connection trusts, and the certificate it shows; ``None`` without TLS.

    Raises:
        KeyFileError: a certificate or key cannot be used.
        InvalidOptionError: there is a certificate without a key, or the reverse.
    """
    if not place.is_tls:
        return None
    if bool(access.certificate) != bool(access.certificate_key):
        name = "metadata_certificate_key" if access.certificate else "metadata_certificate"
        raise InvalidOptionError(name, "", "a certificate and its key belong together")
    path = access.ca
    try:
        context = ssl.create_default_context(cafile=access.ca or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if access.certificate:
            path = access.certificate
            context.load_cert_chain(access.certificate, access.certificate_key, _no_password)
    except OSError as error:  # and ssl.SSLError
        raise KeyFileError(path, f"it cannot be used for TLS: {error.strerror or error}") from error
    return context


def _no_password() -> str:
    """Fail for an encrypted key, of which OpenSSL would ask the password at the terminal."""
    raise OSError("the key is encrypted with a password: give one that is not")
