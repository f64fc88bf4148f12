"""From an address to a store.

    zk://host:port[,host:port]/root   ZooKeeper: real clusters
    sqlite:///abs/path/to/file.db     one host
    memory://name                     this process, for tests and simulation

Only the body that the scheme names is imported: whoever uses SQLite never loads kazoo.
"""

from zbk.errors import InvalidOptionError
from zbk.metadata.stores.store import MetadataStore

FORMS = (
    "zk://host:port[,host:port]/root for ZooKeeper, sqlite:///absolute/path/to/file.db for one "
    "host, or memory://name within one process"
)


def open_store(
    uri: str,
    *,
    timeout_s: float = 10.0,
    session_timeout_ms: int = 10_000,
    must_exist: bool = False,
) -> MetadataStore:
    """Open the metadata store at ``uri``.

    ``timeout_s`` bounds connecting and every later call; ``session_timeout_ms`` is how long an
    ephemeral node outlives a client that has died. ``must_exist``: make no file for SQLite.

    Raises:
        InvalidOptionError: no such scheme, a malformed address, or no such file.
        MetadataUnavailableError: nobody answers there in time.
    """
    scheme, separator, rest = uri.partition("://")
    match scheme if separator else "":
        case "zk":
            from zbk.metadata.stores.zookeeper import ZooKeeperStore  # noqa: PLC0415 - loads kazoo

            return ZooKeeperStore(uri, timeout_s=timeout_s, session_timeout_ms=session_timeout_ms)
        case "sqlite":
            from zbk.metadata.stores.sqlite import SqliteStore  # noqa: PLC0415 - loads sqlite3

            return SqliteStore(
                uri,
                timeout_s=timeout_s,
                session_timeout_ms=session_timeout_ms,
                must_exist=must_exist,
            )
        case "memory" if rest:
            from zbk.metadata.stores.memory import named_tree  # noqa: PLC0415 - tests and simulation only

            return named_tree(rest).open_session()
        case _:
            raise InvalidOptionError("metadata", uri, f"give {FORMS}")
