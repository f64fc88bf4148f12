"""Who a bookie is: made once by ``zbk bookie init``, checked at each start.

The id lives in a cookie, byte for byte the same in every directory and in the metadata store. It
is not the address: a fresh bookie at an old address is another bookie.

Source: BookKeeper's ``Cookie`` and ``LegacyCookieValidation``.
"""

import secrets
from collections.abc import Sequence

from zbk.config import BookieConfig
from zbk.errors import BookieError, CookieMismatchError, InvalidOptionError, ZbkError
from zbk.metadata.bookies import BookieRegistry
from zbk.metadata.instance import initialise, instance_id
from zbk.metadata.store import MetadataStore
from zbk.metadata.values import Cookie, decode, encode
from zbk.storage.identity import COOKIE_NAME, read_cookie, write_cookie
from zbk.system.clock import wall_ms
from zbk.system.files import FileSystem


def directories(config: BookieConfig) -> list[str]:
    """Return the bookie's directories, journal first, each once.

    Raises:
        InvalidOptionError: one is not given.
    """
    for name in ("journal_dir", "ledger_dir"):
        if not getattr(config, name):
            raise InvalidOptionError(name, "", "a bookie needs this directory")
    return list(dict.fromkeys([config.journal_dir, config.ledger_dir]))


def init_identity(files: FileSystem, store: MetadataStore, config: BookieConfig) -> str:
    """Make the bookie's directories and its cookie; return its id.

    The directories get the cookie before the metadata does: an init that was interrupted between
    is finished by the next one.

    Raises:
        CookieMismatchError: the directories belong to a bookie already, or to different ones.
        BookieError: a directory holds something else.
    """
    dirs = directories(config)
    try:
        for path in dirs:
            files.make_dirs(path)
        found = _local_cookie(files, dirs)
    except OSError as error:
        raise BookieError(f"can not use {error.filename}: {error.strerror}") from error
    registry = BookieRegistry(store)
    instance = initialise(store)
    if found is not None:
        cookie = decode(Cookie, found, dirs[0])
        if cookie.instance_id != instance or registry.read_cookie(cookie.bookie_id) is not None:
            raise CookieMismatchError(
                f"{dirs[0]} belongs to bookie {cookie.bookie_id} already: "
                "start it with `zbk bookie run`, or give empty directories"
            )
        # with data it is no interrupted init: somebody took the bookie out of the cluster
        _check_empty(files, dirs, besides=COOKIE_NAME)
    else:
        _check_empty(files, dirs)
        cookie = Cookie(
            bookie_id=f"b-{secrets.token_hex(5)}",
            instance_id=instance,
            journal_dirs=(config.journal_dir,),
            ledger_dirs=(config.ledger_dir,),
            created_ms=wall_ms(),
        )
        for path in dirs:
            write_cookie(files, path, encode(cookie))
    registry.create_cookie(cookie)
    return cookie.bookie_id


def check_identity(files: FileSystem, store: MetadataStore, config: BookieConfig) -> Cookie:
    """Return the bookie's cookie, if directories and metadata agree on it.

    Raises:
        CookieMismatchError: says what does not fit, and the cure.
    """
    cookie = _read_local(files, config)
    where = directories(config)[0]
    if cookie is None:
        raise _no_cookie(config, store)
    instance = instance_id(store)
    if cookie.instance_id != instance:
        raise CookieMismatchError(
            f"bookie {cookie.bookie_id} in {where} belongs to cluster {cookie.instance_id}; "
            f"{store.address} is cluster {instance}: check --metadata"
        )
    known = BookieRegistry(store).read_cookie(cookie.bookie_id)
    if known is None:
        raise CookieMismatchError(
            f"the cluster at {store.address} has no cookie of bookie {cookie.bookie_id}: it was "
            "removed from the cluster, and comes back with empty directories only; or its init "
            "was interrupted: `zbk bookie init` with the same directories finishes it"
        )
    if known != cookie:
        raise CookieMismatchError(
            f"the cookie in {where} is not the one that the cluster keeps of bookie "
            f"{cookie.bookie_id}: these are not its directories; compare them with "
            "`zbk bookie cookie show`"
        )
    return cookie


def local_cookie(files: FileSystem, config: BookieConfig) -> Cookie:
    """Return the cookie that all of the bookie's directories have; nobody else is asked.

    Raises:
        CookieMismatchError: they have none, or not the same; says the cure.
        CorruptRecordError: it is damaged.
    """
    cookie = _read_local(files, config)
    if cookie is None:
        raise _no_cookie(config, None)
    return cookie


def _read_local(files: FileSystem, config: BookieConfig) -> Cookie | None:
    dirs = directories(config)
    try:
        found = _local_cookie(files, dirs)
    except OSError as error:
        raise BookieError(f"can not use {error.filename}: {error.strerror}") from error
    return None if found is None else decode(Cookie, found, dirs[0])


def _no_cookie(config: BookieConfig, store: MetadataStore | None) -> CookieMismatchError:
    """Return the error of directories without any cookie: new ones, or ones that were wiped."""
    where = directories(config)[0]
    own = ((config.journal_dir,), (config.ledger_dir,))
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
        f"{where} is no bookie's directory: make one with `zbk bookie init`{told}"
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
                f"{lost} is not there while {other} belongs to a bookie: is its disk mounted?"
            )
        raise CookieMismatchError(
            f"{lost} has no cookie while {other} has one: a disk was swapped or wiped; put the "
            f"right one back. If all of its data were restored: `zbk bookie cookie generate`; if "
            f"they are lost: `zbk bookie cookie delete`, and another bookie in empty directories"
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
        return "nobody" if cookie is None else decode(Cookie, cookie, path).bookie_id
    except ZbkError:
        return "nobody knows whom: its cookie is damaged"


def _check_empty(files: FileSystem, dirs: Sequence[str], besides: str = "lost+found") -> None:
    for path in dirs:
        names = [name for name in files.list_dir(path) if name not in ("lost+found", besides)]
        if names:
            raise BookieError(
                f"{path} is not empty (it has {names[0]!r}): a new bookie needs empty directories"
            )
