"""Open a metadata store by its address.

    zk://host:port[,host:port]/root   ZooKeeper: real clusters
    zk+tls://...                      the same, encrypted
    sqlite:///abs/path/to/file.db     one host

Only the module of the address's scheme is imported, so a process that uses SQLite does not load
kazoo. ``register_scheme`` adds a scheme in one process; the tests add their store in memory.
"""

from collections.abc import Callable

from zbk.config import MetadataAccess
from zbk.errors import InvalidOptionError
from zbk.metadata.stores.store import MetadataStore

FORMS = (
    "zk://host:port[,host:port]/root for ZooKeeper (zk+tls:// with TLS), or "
    "sqlite:///absolute/path/to/file.db for one host"
)

_OTHER_SCHEMES: dict[str, Callable[[str], MetadataStore]] = {}


def open_store(
    uri: str,
    *,
    timeout_s: float = 10.0,
    session_timeout_ms: int = 10_000,
    must_exist: bool = False,
    access: MetadataAccess | None = None,
) -> MetadataStore:
    """Open the metadata store at ``uri``.

    ``timeout_s`` limits connecting and every later call. ``session_timeout_ms`` is the time that an
    ephemeral node outlives a dead client. ``must_exist``: do not create a SQLite file.
    ``access`` ``None``: that of this process (``zbk.metadata.stores.access``).

    Raises:
        InvalidOptionError: there is no such scheme or file, or the address is malformed.
        KeyFileError: the password or a certificate of the access cannot be used.
        MetadataUnavailableError: the store did not answer in time.
    """
    scheme, separator, rest = uri.partition("://")
    match scheme if separator else "":
        case "zk" | "zk+tls":
            from zbk.metadata.stores.zookeeper import ZooKeeperStore  # noqa: PLC0415 - loads kazoo

            return ZooKeeperStore(
                uri, timeout_s=timeout_s, session_timeout_ms=session_timeout_ms, access=access
            )
        case "sqlite":
            from zbk.metadata.stores.sqlite import SqliteStore  # noqa: PLC0415 - loads sqlite3

            return SqliteStore(
                uri,
                timeout_s=timeout_s,
                session_timeout_ms=session_timeout_ms,
                must_exist=must_exist,
            )
        case other if other in _OTHER_SCHEMES and rest:
            return _OTHER_SCHEMES[other](rest)
        case _:
            raise InvalidOptionError("metadata", uri, f"give {FORMS}")


def register_scheme(scheme: str, opener: Callable[[str], MetadataStore]) -> None:
    """Open addresses of ``scheme`` with ``opener``, in this process.

    ``opener`` receives what follows ``://``.
    """
    _OTHER_SCHEMES[scheme] = opener
