"""The keys of a cluster on this machine: one for each kind of process, in the cluster's folder.

    keys/bookie.key        all bookies; role bookie
    keys/autorecovery.key  role bookie: it reads and writes replicas
    keys/console.key       role auditor
    keys/client.key        role operator: for the user of the cluster
    keys/zookeeper.password  of the user of its ZooKeeper, which all of them are

Keys that exist are used again. On several machines each process has a key of its own.
"""

import os
import secrets
from contextlib import closing
from pathlib import Path
from typing import Final

from zbk.cluster.local_state import KEYS_FOLDER
from zbk.metadata.records.instance import complete
from zbk.metadata.records.principals import PrincipalStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.node_rights import Members
from zbk.metadata.stores.tree_access import secure_tree
from zbk.security.keys import PRIVATE_ENDING, read_public, write_pair
from zbk.security.principals import Principal, with_key
from zbk.system.private_file import private_file
from zbk.transport.curve import new_pair

USER_FILE_NAME: Final = "zookeeper.password"
PASSWORD_SIZE: Final = 32
"""Random bytes of the password."""

METADATA_USER: Final = "zbk"

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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for name in ROLES:
            if not Path(self.path(name)).exists():
                write_pair(self._folder, new_pair(name))

    def path(self, name: str) -> str:
        """Return the path of a private key file; ``name`` is one of ``ROLES``."""
        return str(self._folder / f"{name}{PRIVATE_ENDING}")

    def use_metadata_user(self) -> dict[str, str]:
        """Become a user of the cluster's ZooKeeper, as will the children of this process.

        Return the variables of the environment that make another process this user.

        Raises:
            OSError: the password cannot be written.
        """
        path = self._folder / USER_FILE_NAME
        if not path.exists():
            with private_file(path) as file:
                file.write(f"{secrets.token_urlsafe(PASSWORD_SIZE)}\n".encode())
        variables = {
            "ZBK_METADATA_USER": METADATA_USER,
            "ZBK_METADATA_PASSWORD_FILE": str(path),
        }
        os.environ |= variables
        return variables

    def close_tree(self, metadata: str) -> None:
        """Close the nodes of the cluster's ZooKeeper to everyone but its user.

        Raises:
            MetadataUnavailableError: the store does not answer, or refuses this process.
        """
        from zbk.metadata.stores.zookeeper import ZooKeeperStore  # noqa: PLC0415 - loads kazoo

        with closing(ZooKeeperStore(metadata)) as store:
            members = store.members or Members(operators=(store.own_identity,))
            secure_tree(store, members, settle=lambda: None)  # nothing else runs yet
            complete(store)

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
