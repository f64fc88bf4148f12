"""The address of a ZooKeeper ensemble: ``zk://host:port[,host:port...]/root``.

``zk+tls://`` is the same over TLS. The port is 2181 where none is given, and 2281 with TLS; the
root is ``/zbk``. An IPv6 host is written ``[::1]:2181``.

Any thread; ``why_unreachable`` opens connections.
"""

import ssl
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from zbk.errors import InvalidOptionError
from zbk.metadata.stores.arguments import check_path
from zbk.metadata.stores.zookeeper_tls import connect_server, why_failed

ZOOKEEPER_PREFIX: Final = "zk://"
TLS_PREFIX: Final = "zk+tls://"
PORT_DEFAULT: Final = 2181
TLS_PORT_DEFAULT: Final = 2281
ROOT_DEFAULT: Final = "/zbk"
HOST_COUNT_MAX: Final = 16

_PROBE_COUNT_MAX = 3
PROBE_S_MIN: Final = 0.01
"""The shortest time-out of a probe: with 0 it would not begin to connect."""
_FORM = "give zk://host:port[,host:port...]/root"


class ZooKeeperAddress(msgspec.Struct, frozen=True):
    """The servers of an ensemble, and the node that holds the records of zbk."""

    servers: tuple[tuple[str, int], ...]  # host and port
    root: str  # /a or /a/b
    is_tls: bool = False

    @property
    def hosts(self) -> str:
        """The servers as kazoo wants them: ``host:port,host:port``."""
        return ",".join(_host_port(host, port) for host, port in self.servers)


def is_zookeeper(uri: str) -> bool:
    """Return whether a URI is that of a ZooKeeper.

    >>> is_zookeeper("zk+tls://one/zbk"), is_zookeeper("sqlite:///zbk.db")
    (True, False)
    """
    return uri.startswith((ZOOKEEPER_PREFIX, TLS_PREFIX))


def parse_address(uri: str) -> ZooKeeperAddress:
    """Return the address in a URI.

    >>> parse_address("zk://one:2182,two/prod").hosts
    'one:2182,two:2181'

    Raises:
        InvalidOptionError: it is malformed.
    """
    if not is_zookeeper(uri):
        raise InvalidOptionError("metadata", uri, _FORM)
    scheme, _, rest = uri.partition("://")
    hosts, slash, path = rest.partition("/")
    is_tls = f"{scheme}://" == TLS_PREFIX
    port = TLS_PORT_DEFAULT if is_tls else PORT_DEFAULT
    servers = tuple(_server(uri, text.strip(), port) for text in hosts.split(","))
    if len(servers) > HOST_COUNT_MAX:
        raise InvalidOptionError("metadata", uri, f"names over {HOST_COUNT_MAX} servers")
    root = slash + unquote(path).rstrip("/")
    root = ROOT_DEFAULT if root in ("", "/") else root
    try:
        check_path(root)
    except InvalidOptionError as error:
        raise InvalidOptionError("metadata", uri, f"the root {error.reason}") from error
    return ZooKeeperAddress(servers, root, is_tls)


def why_unreachable(
    address: ZooKeeperAddress, timeout_s: float, context: ssl.SSLContext | None = None
) -> str:
    """Return the outcome of bare connections to the first servers, for people."""
    servers = address.servers[:_PROBE_COUNT_MAX]
    share_s = max(PROBE_S_MIN, timeout_s / len(servers))
    return "; ".join(_probe(host, port, share_s, context) for host, port in servers)


def _server(uri: str, text: str, port_default: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidOptionError("metadata", uri, f"{error}; {_FORM}") from error
    if not host or parts.username or parts.query or parts.fragment or " " in host or port == 0:
        raise InvalidOptionError("metadata", uri, _FORM)
    return host, port or port_default


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _probe(host: str, port: int, timeout_s: float, context: ssl.SSLContext | None) -> str:
    try:
        with connect_server(host, port, timeout_s, context):
            return f"{_host_port(host, port)} accepts connections but grants no session"
    except OSError as error:
        return f"{_host_port(host, port)}: {why_failed(error)}"
