"""The keys of a cluster on this machine: one for each kind of process, in the cluster's folder.

    keys/bookie.key        all bookies; role bookie
    keys/autorecovery.key  role bookie: it reads and writes replicas
    keys/console.key       role auditor
    keys/client.key        role operator: for the user of the cluster

Keys that exist are used again. On several machines each process has a key of its own.
"""

from pathlib import Path
from typing import Final

from zbk.cluster.local_state import KEYS_FOLDER
from zbk.metadata.records.principals import PrincipalStore
from zbk.metadata.stores.connect import open_store
from zbk.security.keys import PRIVATE_ENDING, read_public, write_pair
from zbk.security.principals import Principal, with_key
from zbk.transport.curve import new_pair

ROLES: Final = {
    "bookie": ("bookie",),
    "autorecovery": ("bookie",),
    "console": ("auditor",),
    "client": ("operator",),
}


class LocalKeys:
    """The keys of a cluster in ``folder``."""

    def __init__(self, folder: Path) -> None:
        """Make the keys that are missing.

        Raises:
            KeyFileError: one cannot be written.
        """
        self._folder = folder.absolute() / KEYS_FOLDER
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ROLES:
            if not Path(self.path(name)).exists():
                write_pair(self._folder, new_pair(name))

    def path(self, name: str) -> str:
        """Return the path of a private key file; ``name`` is one of ``ROLES``."""
        return str(self._folder / f"{name}{PRIVATE_ENDING}")

    def admit(self, metadata: str) -> None:
        """Make principals of the keys in a cluster's metadata store.

        Raises:
            MetadataUnavailableError: the store does not answer.
            InvalidOptionError: the cluster has other principals with these names.
        """
        store = open_store(metadata)
        try:
            PrincipalStore(store).change(self._with_own)
        finally:
            store.close()

    def _with_own(self, principals: tuple[Principal, ...]) -> tuple[Principal, ...]:
        for name, roles in ROLES.items():
            key = read_public(self.path(name)).public_key
            principals = with_key(principals, name, key, roles)
        return principals
