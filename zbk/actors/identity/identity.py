"""The identity of a bookie: made once by ``zbk bookie init``, checked at each start.

The id is in a cookie, byte for byte the same in every directory and in the metadata store. It is
not the address: a new bookie at an old address is another bookie.

The directories are those in the cookie. The path of a directory may change only if it is the only
one of its kind. Of several, none may be removed or moved. One can be taken out of service
(``zbk.storage.directory.service_note``), and is not read then. Empty ones can be added
(``zbk.actors.identity.expansion``).

Source: BookKeeper's ``Cookie`` and ``LegacyCookieValidation``.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from zbk.config import BookieConfig
from zbk.errors import BookieError, CookieMismatchError, InvalidOptionError, ZbkError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise, instance_id
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import Cookie, decode, encode
from zbk.storage.directory import unfinished
from zbk.storage.directory.identity import (
    COOKIE_NAME,
    PLACE_NAME,
    UNFINISHED_NAMES,
    read_cookie,
    read_place,
    write_cookie,
    write_place,
)
from zbk.storage.directory.service_note import ServiceNote, read_note
from zbk.system.clock import wall_ms
from zbk.system.files import FileSystem

EXPAND_COMMAND: Final = "zbk bookie expand-storage"
"""The command that adds directories, as its note of being unfinished names it."""


def directories(config: BookieConfig) -> list[str]:
    """Return the bookie's directories, journals first, each once.

    Raises:
        InvalidOptionError: one is not given, or is of both kinds where there are several.
    """
    for name in ("journal_dir", "ledger_dir"):
        if not getattr(config, name):
            raise InvalidOptionError(name, "", "a bookie needs this directory")
    paths = [*config.journal_dirs, *config.ledger_dirs]
    if len(paths) > 2 and len(set(paths)) < len(paths):
        raise InvalidOptionError("ledger_dir", ", ".join(paths), "each needs a path of its own")
    return list(dict.fromkeys(paths))


def service_note(files: FileSystem, config: BookieConfig) -> ServiceNote:
    """Return the note of directories out of service.

    Raises:
        CorruptRecordError: a note is damaged, and no directory has a whole one.
    """
    return read_note(files, directories(config))


def in_service(files: FileSystem, config: BookieConfig) -> list[str]:
    """Return the directories in service, journals first.

    Raises:
        CorruptRecordError: as ``service_note``.
        BookieError: no directory of a kind is left.
    """
    lost = service_note(files, config).paths
    for name, paths in (("journal", config.journal_dirs), ("ledger", config.ledger_dirs)):
        if paths and lost.issuperset(paths):
            raise BookieError(f"no {name} directory is left: all of them are out of service")
    return [path for path in directories(config) if path not in lost]


def place_of(known: BookieConfig | Cookie, path: str) -> str:
    """Return the place of a path among several directories; empty if it is the only one."""
    for name, paths in (("journal", known.journal_dirs), ("ledger", known.ledger_dirs)):
        own = [Path(one).absolute() for one in paths]
        if len(own) > 1 and Path(path).absolute() in own:
            return f"{name} directory {own.index(Path(path).absolute()) + 1} of {len(own)}"
    return ""


def init_identity(files: FileSystem, store: MetadataStore, config: BookieConfig) -> str:
    """Make the bookie's directories and its cookie; return its id.

    The directories get the cookie before the metadata store does. An init that was interrupted in
    between starts again, under another id: its cookies look like those of a bookie that was removed
    from the cluster and has lost its files, which would deny its entries under the old id.

    Raises:
        CookieMismatchError: the directories belong to a bookie already, or to different ones.
        BookieError: a directory is not empty.
    """
    dirs = directories(config)
    try:
        for path in dirs:
            files.make_dirs(path)
        registry = BookieRegistry(store)
        instance = initialise(store)
        _remove_unknown_cookies(files, registry, dirs, instance)
        found = _local_cookie(files, dirs)
    except OSError as error:
        raise BookieError(f"cannot use {error.filename}: {error.strerror}") from error
    if found is not None:
        cookie = decode(Cookie, found, dirs[0])
        _check_places(files, config, dirs, cookie)
        if cookie.instance_id != instance or registry.read_cookie(cookie.bookie_id) is not None:
            raise CookieMismatchError(
                f"{dirs[0]} belongs to bookie {cookie.bookie_id} already: "
                "start it with `zbk bookie run`, or give empty directories"
            )
    # with data it is no interrupted init: the bookie was removed from the cluster
    _check_empty(files, dirs, besides="" if found is None else COOKIE_NAME)
    cookie = Cookie(
        bookie_id=f"b-{secrets.token_hex(5)}",
        instance_id=instance,
        journal_dirs=config.journal_dirs,
        ledger_dirs=config.ledger_dirs,
        created_ms=wall_ms(),
    )
    for path in dirs:
        write_place(files, path, place_of(config, path))
        write_cookie(files, path, encode(cookie))
    registry.create_cookie(cookie)
    return cookie.bookie_id


def _remove_unknown_cookies(
    files: FileSystem, registry: BookieRegistry, dirs: Sequence[str], instance: str
) -> None:
    """Remove the cookies of an interrupted init from all directories.

    It removes them only if the cluster does not have the bookie and the directories are otherwise
    empty.
    """
    cookies = {path: read_cookie(files, path) for path in dirs}
    found = {cookie for cookie in cookies.values() if cookie is not None}
    if len(found) != 1:
        return
    (content,) = found
    cookie = decode(Cookie, content, "cookie")
    known = registry.read_cookie(cookie.bookie_id, is_fresh=True)
    is_unknown = known is None and cookie.instance_id == instance
    if not is_unknown or _strange_names(files, dirs, besides=COOKIE_NAME):
        return
    for path in dirs:
        for name in (
            PLACE_NAME,
            COOKIE_NAME,
        ):  # the cookie last: it shows what is left
            if files.exists(f"{path}/{name}"):
                files.remove(f"{path}/{name}")
        files.sync_dir(path)


def check_identity(files: FileSystem, store: MetadataStore, config: BookieConfig) -> Cookie:
    """Return the bookie's cookie, if directories and metadata agree on it.

    Raises:
        CookieMismatchError: they do not; the text has the difference and the cure.
    """
    cookie = _read_local(files, config)
    where = in_service(files, config)[0]
    if cookie is None:
        raise _no_cookie(config, store)
    instance = instance_id(store)
    if cookie.instance_id != instance:
        raise CookieMismatchError(
            f"bookie {cookie.bookie_id} in {where} belongs to cluster {cookie.instance_id}; "
            f"{store.address} is cluster {instance}: check --metadata"
        )
    known = BookieRegistry(store).read_cookie(cookie.bookie_id, is_fresh=True)
    if known is None:
        raise CookieMismatchError(
            f"the cluster at {store.address} has no cookie for bookie {cookie.bookie_id}: it was "
            "removed from the cluster, and comes back only with empty directories; or its init "
            "was interrupted: run `zbk bookie init` with the same directories again"
        )
    if known != cookie:
        raise CookieMismatchError(
            f"the cookie in {where} is not the one that the cluster has for bookie "
            f"{cookie.bookie_id}: these are not its directories; compare them with "
            "`zbk bookie cookie show`"
        )
    return cookie


def local_cookie(files: FileSystem, config: BookieConfig, *, besides: str = "") -> Cookie:
    """Return the cookie in all directories of a bookie, without asking the metadata store.

    Directories out of service are not read, nor is the one in ``besides``.

    Raises:
        CookieMismatchError: they have none, or not the same; the text has the cure.
        CorruptRecordError: it is damaged.
    """
    cookie = _read_local(files, config, besides)
    if cookie is None:
        raise _no_cookie(config, None)
    return cookie


def _read_local(files: FileSystem, config: BookieConfig, besides: str = "") -> Cookie | None:
    dirs = [one for one in in_service(files, config) if one != besides]
    try:
        for path in dirs:
            if unfinished.unfinished_command(files, path) == EXPAND_COMMAND:
                unfinished.check_finished(files, path)  # the cookies may differ meanwhile
        found = _local_cookie(files, dirs)
        if found is None:
            return None
        cookie = decode(Cookie, found, dirs[0])
        _check_places(files, config, dirs, cookie)
    except OSError as error:
        raise BookieError(f"cannot use {error.filename}: {error.strerror}") from error
    return cookie


def _check_places(
    files: FileSystem, config: BookieConfig, dirs: Sequence[str], cookie: Cookie
) -> None:
    """Check that the directories are those in the cookie, each in its place.

    Raises:
        CookieMismatchError: one is not; the text has the cure.
        OSError: one cannot be read.
    """
    for name, given, own in (
        ("journal", config.journal_dirs, cookie.journal_dirs),
        ("ledger", config.ledger_dirs, cookie.ledger_dirs),
    ):
        if given != own and max(len(given), len(own)) > 1:
            raise CookieMismatchError(
                f"bookie {cookie.bookie_id} has the {name} directories {' and '.join(own)}, in "
                f"this order, and was given {' and '.join(given)}: none can be added, left "
                "out or moved by configuration alone; give those in its cookie. Add empty ones "
                "with `zbk bookie expand-storage`; take a broken one out of service with "
                "`zbk bookie retire-dir`"
            )
    for path in dirs:
        place, found = place_of(config, path), read_place(files, path)
        if place != found:
            raise CookieMismatchError(
                f"{path} is configured as {place or 'the only one of its kind'} of bookie "
                f"{cookie.bookie_id}, but its note has {found or 'none of several'}: its disk was "
                "swapped with another one; mount each disk where it was"
            )


def _no_cookie(config: BookieConfig, store: MetadataStore | None) -> CookieMismatchError:
    """Return the error of directories without any cookie, new or wiped."""
    where = directories(config)[0]
    own = (config.journal_dirs, config.ledger_dirs)
    cookies = {} if store is None else BookieRegistry(store).cookies()
    former = [
        bookie_id
        for bookie_id, known in cookies.items()
        if (known.journal_dirs, known.ledger_dirs) == own
    ]
    told = (
        f" (if this was bookie {' or '.join(former)}, its disks are wiped or not mounted: mount "
        "them, or give it up with `zbk bookie cookie delete`)"
        if former
        else ""
    )
    return CookieMismatchError(
        f"{where} is not a bookie's directory: make one with `zbk bookie init`{told}"
    )


def _local_cookie(files: FileSystem, dirs: Sequence[str]) -> bytes | None:
    cookies = {path: read_cookie(files, path) for path in dirs}
    without = [path for path, cookie in cookies.items() if cookie is None]
    if len(without) == len(dirs):
        return None
    if without:
        lost = without[0]
        other = next(path for path in dirs if path not in without)
        if not files.exists(lost):
            raise CookieMismatchError(
                f"{lost} is not there while {other} belongs to a bookie: is its disk mounted? "
                "If it is broken, and one of several: `zbk bookie retire-dir`"
            )
        raise CookieMismatchError(
            f"{lost} has no cookie while {other} has one: a disk was swapped or wiped; put the "
            f"right one back. If all of its data were restored: `zbk bookie cookie generate`; if "
            f"they are lost: `zbk bookie retire-dir`, if it is one of several; else `zbk bookie "
            "cookie delete`, and another bookie in empty directories"
        )
    if len(set(cookies.values())) > 1:
        owners = ", ".join(f"{path} to {_owner(one, path)}" for path, one in cookies.items())
        raise CookieMismatchError(
            f"{' and '.join(dirs)} belong to different bookies: {owners}; "
            "`zbk bookie cookie show` compares them with the cluster"
        )
    return cookies[dirs[0]]


def _owner(cookie: bytes | None, path: str) -> str:
    try:
        return "no bookie" if cookie is None else decode(Cookie, cookie, path).bookie_id
    except ZbkError:
        return "an unknown bookie: its cookie is damaged"


def _check_empty(files: FileSystem, dirs: Sequence[str], besides: str) -> None:
    for path, name in _strange_names(files, dirs, besides):
        raise BookieError(
            f"{path} is not empty (it has {name!r}): a new bookie needs empty directories"
        )


def _strange_names(files: FileSystem, dirs: Sequence[str], besides: str) -> list[tuple[str, str]]:
    """Return directories and the names in them that no init has made."""
    allowed = ("lost+found", PLACE_NAME, *UNFINISHED_NAMES, besides)
    return [(path, name) for path in dirs for name in files.list_dir(path) if name not in allowed]
