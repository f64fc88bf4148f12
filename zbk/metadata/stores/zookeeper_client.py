"""The kazoo client of a connection: how it connects, encrypts, and says who it is.

A user authenticates in each new session, before any request, with ``digest`` (any ZooKeeper
accepts it, and checks it against the access lists of nodes) or with ``sasl`` (DIGEST-MD5: the
server knows its users and ends the connection of others). kazoo needs the package ``pure-sasl`` for
the latter.

Any thread.
"""

import importlib.util
import logging
import ssl
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler

from zbk.errors import MissingDependencyError
from zbk.metadata.stores.access import SASL, StoreUser
from zbk.metadata.stores.zookeeper_address import ZooKeeperAddress
from zbk.metadata.stores.zookeeper_tls import connect_tls

SASL_CURE: Final = "pip install 'zbk[sasl]', or set metadata_auth = \"digest\""

_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 2.0, "max_jitter": 0.4}

logging.getLogger("kazoo").addHandler(logging.NullHandler())


class _Demoted(logging.LoggerAdapter[logging.Logger]):
    """The logger for kazoo, whose lines are at most at INFO.

    Its lines at DEBUG show requests and answers whole: the password of the user, and records with
    the keys of ledgers. They are dropped.
    """

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - of logging
        """Return whether lines of a level are written."""
        return level >= logging.INFO and super().isEnabledFor(level)

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
        return connect_tls(address, hostname, timeout, self._context)


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
