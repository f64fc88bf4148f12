"""The access of this process to metadata stores: its user, and whom it trusts with TLS.

``own_access`` is that of the process: from the table [security] of its configuration file, and from
the environment (``ZBK_METADATA_USER`` and so on), which children inherit. It names files, and no
option or variable holds a password, so neither ``ps`` nor ``/proc`` shows one. The files are
read when a store is opened.

Any thread.
"""

import os
from base64 import b64encode
from hashlib import sha1
from pathlib import Path
from typing import Any, Final

import msgspec

from zbk.config import MetadataAccess, SecurityConfig, access_of
from zbk.config.sources import CONFIG_VARIABLE, build, read_toml
from zbk.errors import InvalidOptionError, KeyFileError
from zbk.security.secret_file import read_private

PASSWORD_SIZE_MAX: Final = 1_024
DIGEST: Final = "digest"
SASL: Final = "sasl"


class StoreUser(msgspec.Struct, frozen=True):
    """A user of ZooKeeper with a password, which ``repr`` does not show."""

    name: str
    password: str
    auth: str = DIGEST

    @property
    def identity(self) -> str:
        """The name that access lists have for it.

        >>> StoreUser("super", "test").identity
        'digest:super:D/InIHSb7yEEbrWz8b9l71RjZJU='
        """
        if self.auth == SASL:
            return f"{SASL}:{self.name}"
        digest = sha1(f"{self.name}:{self.password}".encode()).digest()  # noqa: S324 - ZooKeeper's
        return f"{DIGEST}:{self.name}:{b64encode(digest).decode()}"

    def __repr__(self) -> str:
        return f"StoreUser({self.name!r}, {self.auth!r})"


def read_user(access: MetadataAccess) -> StoreUser | None:
    """Return the user of an access; ``None`` if it names none.

    Raises:
        InvalidOptionError: it has a user without a password, or the reverse, or a wrong name.
        KeyFileError: the file of the password cannot be used.
    """
    name, path = access.user, access.password_file
    if not name and not path:
        return None
    if not name or ":" in name or not name.isprintable():
        raise InvalidOptionError("metadata_user", name, "give a name without a colon")
    if not path:
        raise InvalidOptionError("metadata_password_file", path, f"give that of {name}")
    try:
        password = read_private(path, PASSWORD_SIZE_MAX + 1).decode().strip()
    except UnicodeDecodeError:
        raise KeyFileError(path, "it holds no password: it is not UTF-8") from None
    if not 0 < len(password.encode()) <= PASSWORD_SIZE_MAX:
        raise KeyFileError(path, f"it holds no password of 1 to {PASSWORD_SIZE_MAX} bytes")
    return StoreUser(name, password, access.auth)


class _Process:
    """This process's configuration file; "": that in ``$ZBK_CONFIG``, if there is one."""

    config_file = ""


def use_config_file(path: str) -> None:
    """Use this file for ``own_access`` from now on; "": that in ``$ZBK_CONFIG``."""
    _Process.config_file = path


def own_access() -> MetadataAccess:
    """Return the access of this process.

    Raises:
        InvalidOptionError: an option is unknown or has a wrong value.
        OSError: the configuration file cannot be read.
    """
    path = _Process.config_file or os.environ.get(CONFIG_VARIABLE, "")
    table: dict[str, Any] = {}
    if path:
        table = read_toml(path, Path(path).read_text("utf-8", "replace")).get("security", {})
    return access_of(build(SecurityConfig, flags={}, environment=os.environ, table=table))
