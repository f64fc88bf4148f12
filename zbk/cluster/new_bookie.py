"""A new bookie of a local cluster, or the one that an interrupted start has left in its place."""

from zbk.actors.identity.identity import check_identity
from zbk.actors.process.bookie_process import init_bookie
from zbk.config import BookieConfig
from zbk.errors import CookieMismatchError
from zbk.metadata.stores.connect import open_store
from zbk.system.files import OsFiles


def make_bookie(config: BookieConfig) -> str:
    """Make a bookie, if its directories have none yet; return its id.

    The folder of a cluster is the cluster's own, so a bookie that is there and is not in the record
    was made by a start that was interrupted before it wrote the record.

    Raises:
        CookieMismatchError: the directories belong to a bookie of another cluster.
        MetadataUnavailableError: the metadata store does not answer.
    """
    try:
        return init_bookie(config)
    except CookieMismatchError:
        store = open_store(config.metadata, session_timeout_ms=config.session_timeout_ms)
        try:
            return check_identity(OsFiles(), store, config).bookie_id
        finally:
            store.close()
