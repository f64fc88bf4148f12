"""Users of a ZooKeeper: their passwords in files, and strangers that try everything."""

from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from zbk.config import MetadataAccess
from zbk.metadata.stores.access import read_user


def make_access(folder: Path, name: str) -> MetadataAccess:
    """Return the access of a user; its password is in a new file."""
    file = folder / f"{name}.password"
    file.write_text(f"secret of {name}\n")
    file.chmod(0o600)
    return MetadataAccess(user=name, password_file=str(file))


def identity_of(access: MetadataAccess) -> str:
    """Return the identity of a user, as access lists have it."""
    user = read_user(access)
    assert user is not None
    return user.identity


def paths_of(client: KazooClient, root: str) -> list[str]:
    """Return all paths of a tree."""
    found = [root]
    for name in client.get_children(root):
        found += paths_of(client, f"{root}/{name}")
    return found


def successes_of(stranger: KazooClient, paths: list[str]) -> list[str]:
    """Try everything with each node; return what succeeded."""
    attempts = {
        "read": stranger.get,
        "list": stranger.get_children,
        "rights": stranger.get_acls,
        "write": lambda path: stranger.set(path, b"mine"),
        "create": lambda path: stranger.create(f"{path}/mine", b""),
        "delete": stranger.delete,
        "take": lambda path: stranger.set_acls(path, OPEN_ACL_UNSAFE),
    }
    found = []
    for path in paths:
        for name, attempt in attempts.items():
            try:
                attempt(path)
            except NoAuthError:
                continue
            except Exception as error:  # noqa: BLE001 - any other answer is one too
                found.append(f"{name} {path}: {error!r}")
            else:
                found.append(f"{name} {path}")
    return found
