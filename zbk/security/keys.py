"""Keys: pairs of Curve25519, as ZeroMQ's CURVE uses them, and their files.

A key is 32 bytes, written as 40 characters of Z85 (ZeroMQ's RFC 32). Two files hold a pair, both
TOML, in the encoding of ASCII:

    NAME.key    mode 0600    name, public_key, secret_key
    NAME.pub    mode 0644    name, public_key

Guarantees: a new file never replaces one that exists, the private file has its mode before it has
its content, and a pair that cannot be written whole leaves no file. A private file that others may
have read or replaced is refused (``secret_file``).

Decision: the format is zbk's own. The certificates of pyzmq are written with the process's umask.

Any thread.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from zbk.conversion import convert
from zbk.errors import InvalidOptionError, KeyFileError
from zbk.security.secret_file import read_private

PRIVATE_ENDING: Final = ".key"
PUBLIC_ENDING: Final = ".pub"
PRIVATE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
FILE_SIZE_MAX: Final = 4_096

NAME_SIZE_MAX: Final = 64

_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_SIZE_MAX - 1}}}", re.ASCII)
_KEY: Final = re.compile(r"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}", re.ASCII)


class PublicKey(msgspec.Struct, frozen=True):
    """The public half of a pair, and its name."""

    name: str
    public_key: str  # Z85


class KeyPair(msgspec.Struct, frozen=True):
    """A pair of keys. Its ``repr`` does not show the secret one."""

    name: str
    public_key: str  # Z85
    secret_key: str  # Z85

    def __repr__(self) -> str:
        return f"KeyPair({self.name!r}, {self.public_key!r})"


def is_key(text: str) -> bool:
    """Return whether a text has the form of a key.

    >>> is_key("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"), is_key("secret")
    (True, False)
    """
    return _KEY.fullmatch(text) is not None


def check_name(name: str) -> str:
    """Return the name of a key or a principal.

    Raises:
        InvalidOptionError: neither can have this name.
    """
    if _NAME.fullmatch(name) is None:
        why = f"give up to {NAME_SIZE_MAX} letters, digits and . _ -, a letter or digit first"
        raise InvalidOptionError("name", name[: NAME_SIZE_MAX + 1], why)
    return name


def write_pair(folder: Path, pair: KeyPair) -> tuple[Path, Path]:
    """Write the two files of a new pair; return their paths, the private one first.

    Raises:
        InvalidOptionError: no key can have its name.
        KeyFileError: a file exists already, or cannot be written.
    """
    check_name(pair.name)
    private, public = (
        folder / f"{pair.name}{PRIVATE_ENDING}",
        folder / f"{pair.name}{PUBLIC_ENDING}",
    )
    named = f'name = "{pair.name}"\npublic_key = "{pair.public_key}"\n'
    secret = (
        "# The private key of a process of zbk. A process that has it can act in its name.\n"
        f'{named}secret_key = "{pair.secret_key}"\n'
    )
    if public.exists():
        raise KeyFileError(str(public), "it exists already, and is not replaced")
    _write_new(private, secret, PRIVATE_MODE)
    with _removed_on_error(private):
        _write_new(public, named, PUBLIC_MODE)
    return private, public


def read_pair(path: str | Path) -> KeyPair:
    """Return the pair in a private file.

    Raises:
        KeyFileError: it cannot be read, is no private key, or other users may read it.
    """
    fields = _read(Path(path), is_private=True)
    try:
        pair = convert(fields, KeyPair)
    except msgspec.ValidationError as error:
        raise KeyFileError(str(path), "it is no private key: give the file NAME.key") from error
    _check_keys(path, pair.public_key, pair.secret_key)
    return pair


def read_public(path: str | Path) -> PublicKey:
    """Return the public half in a file of either kind.

    Raises:
        KeyFileError: it cannot be read, or holds no key.
    """
    fields = _read(Path(path), is_private=False)
    fields.pop("secret_key", None)
    try:
        found = convert(fields, PublicKey)
    except msgspec.ValidationError as error:
        raise KeyFileError(str(path), "it holds no key") from error
    _check_keys(path, found.public_key)
    return found


def list_public(folder: Path) -> list[tuple[Path, PublicKey]]:
    """Return the public keys in a folder, by name of their files.

    Raises:
        KeyFileError: the folder, or a file in it, cannot be read.
    """
    try:
        paths = sorted(one for one in folder.iterdir() if one.suffix == PUBLIC_ENDING)
    except OSError as error:
        raise KeyFileError(str(folder), error.strerror or str(error)) from error
    return [(path, read_public(path)) for path in paths]


# ------------------------------------------------------------------ private


def _write_new(path: Path, text: str, mode: int) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with _removed_on_error(path), os.fdopen(fd, "w", encoding="ascii") as file:
            os.fchmod(fd, mode)  # whatever the umask of the process
            file.write(text)
            file.flush()
            os.fsync(fd)
    except FileExistsError as error:
        raise KeyFileError(str(path), "it exists already, and is not replaced") from error
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error


@contextmanager
def _removed_on_error(path: Path) -> Iterator[None]:
    """Remove a new file if the block fails: half a pair would keep its name from being used."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _read_public(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(FILE_SIZE_MAX)
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error


def _read(path: Path, *, is_private: bool) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - a process without a key does not need it

    data = read_private(path, FILE_SIZE_MAX) if is_private else _read_public(path)
    try:
        return tomllib.loads(data.decode("ascii"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        del error  # its text may repeat a part of the secret
        raise KeyFileError(str(path), "it holds no key") from None


def _check_keys(path: str | Path, *keys: str) -> None:
    if not all(map(is_key, keys)):
        raise KeyFileError(str(path), "it holds no key: each is 40 characters of Z85")
