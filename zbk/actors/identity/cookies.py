"""The cookies of a bookie, in its directories and in the metadata, for operators.

    look       compare identity and history in each directory with the metadata
    delete     remove a bookie from the cluster: it cannot come back with its directories
    generate   write a directory's cookie again: the bookie trusts the directory from then on

The last two are refused while the bookie is registered. ``zbk.actors.identity.identity`` has the
checks of a start. Source: BookKeeper's ``CookieCommand`` and its children.
"""

from pathlib import Path

import msgspec

from zbk.actors.identity.history import known_history
from zbk.actors.identity.identity import place_of
from zbk.config import BookieConfig
from zbk.errors import (
    BookieError,
    CookieMismatchError,
    CorruptRecordError,
    InvalidOptionError,
    NoNodeError,
    UnsupportedVersionError,
)
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import instance_id
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import Cookie, decode, encode
from zbk.storage.directory.history import missing_history
from zbk.storage.directory.identity import (
    INCARNATION_NAME,
    lock_directory,
    read_cookie,
    read_incarnation,
    write_cookie,
    write_place,
)
from zbk.storage.directory.service_note import read_note
from zbk.system.files import FileSystem


class FoundCookie(msgspec.Struct, frozen=True):
    """The cookie in one place."""

    place: str  # a directory, or the metadata store's address
    cookie: Cookie | None
    state: str  # "fits", or the problem
    incarnation: int | None = None  # None: not in this place
    has_served: bool | None = None  # in the metadata


def look(
    files: FileSystem, store: MetadataStore | None, config: BookieConfig, bookie_id: str
) -> list[FoundCookie]:
    """Return the cookies in the directories, and in the metadata those of their bookies.

    With ``bookie_id`` also of that bookie; without it and without directories, of all bookies.

    Raises:
        InvalidOptionError: the store holds no cluster.
    """
    directories = list(dict.fromkeys((*config.journal_dirs, *config.ledger_dirs)))
    lost = {one.path: one for one in read_note(files, directories).directories}
    found = [
        FoundCookie(path, None, f"out of service: {lost[path].reason}")
        if path in lost
        else _in_directory(files, path)
        for path in directories
    ]
    if store is None:
        return found
    cookies = BookieRegistry(store).cookies()
    instance = instance_id(store)
    judged = [_judged(one, cookies, instance) for one in found]
    judged = _with_history(files, store, config, judged)
    named = {one.cookie.bookie_id for one in found if one.cookie is not None}
    if bookie_id:
        named.add(bookie_id)
    elif not directories:
        named = set(cookies)
    return judged + [_in_metadata(store, cookies, one) for one in sorted(named)]


def delete(store: MetadataStore, bookie_id: str) -> None:
    """Remove a bookie that is not running from the cluster.

    Raises:
        BookieError: it is registered.
        InvalidOptionError: the cluster has no cookie for it.
    """
    _check_stopped(store, bookie_id)
    try:
        BookieRegistry(store).delete_cookie(bookie_id)
    except NoNodeError as error:
        raise _unknown(bookie_id) from error


def check_generate(
    files: FileSystem, store: MetadataStore, bookie_id: str, directory: str
) -> Cookie:
    """Return the cookie that may be written into a directory again.

    Raises:
        InvalidOptionError: the cluster has no cookie for the bookie, or the directory is not in it.
        BookieError: the bookie is registered, or the directory has no data of a bookie.
        CookieMismatchError: the directory has a cookie.
    """
    cookie = BookieRegistry(store).read_cookie(bookie_id)
    if cookie is None:
        raise _unknown(bookie_id)
    _check_stopped(store, bookie_id)
    own = [*cookie.journal_dirs, *cookie.ledger_dirs]
    if _absolute(directory) not in map(_absolute, own):
        raise InvalidOptionError(
            "directory", directory, f"bookie {bookie_id} has {' and '.join(dict.fromkeys(own))}"
        )
    if not files.exists(directory):
        raise BookieError(f"{directory} is not there: is the disk mounted?")
    if read_cookie(files, directory) is not None:
        raise CookieMismatchError(f"{directory} has a cookie: `zbk bookie cookie show` shows it")
    is_ledger_dir = _absolute(directory) in map(_absolute, cookie.ledger_dirs)
    what, ending = ("last log mark", "last_mark") if is_ledger_dir else ("journal", ".journal")
    if not any(name.endswith(ending) for name in files.list_dir(directory)):
        raise BookieError(
            f"{directory} has no {what}: its data were not restored, and without them the bookie "
            f"would deny what it acknowledged. Restore them, or give the bookie up: "
            f"`zbk bookie cookie delete {bookie_id}`, and `zbk bookie init` in empty directories"
        )
    return cookie


def generate(files: FileSystem, store: MetadataStore, bookie_id: str, directory: str) -> None:
    """Write the cookie in the metadata into a restored directory.

    Raises:
        InvalidOptionError, BookieError, CookieMismatchError: as ``check_generate``.
        DirectoryInUseError: a process uses the directory.
    """
    cookie = check_generate(files, store, bookie_id, directory)
    lock = lock_directory(files, directory)
    try:
        write_place(files, directory, place_of(cookie, directory))
        write_cookie(files, directory, encode(cookie))
    finally:
        lock.close()


def _in_directory(files: FileSystem, directory: str) -> FoundCookie:
    try:
        content = read_cookie(files, directory)
        if content is None:
            there = files.exists(directory)
            return FoundCookie(directory, None, "no cookie" if there else "no such directory")
        cookie = decode(Cookie, content, directory)
        has_count = files.exists(f"{directory}/{INCARNATION_NAME}")
        incarnation = read_incarnation(files, directory) if has_count else None
        return FoundCookie(directory, cookie, "not compared", incarnation)
    except (CorruptRecordError, UnsupportedVersionError) as error:
        return FoundCookie(directory, None, f"damaged: {error}")
    except OSError as error:
        return FoundCookie(directory, None, f"cannot be read: {error.strerror}")


def _judged(found: FoundCookie, cookies: dict[str, Cookie], instance: str) -> FoundCookie:
    cookie = found.cookie
    if cookie is None:
        return found
    known = cookies.get(cookie.bookie_id)
    if cookie.instance_id != instance:
        state = "of another cluster"
    elif known is None:
        state = "unknown to the cluster"
    elif known != cookie:
        state = "not the one that the cluster keeps"
    else:
        own = map(_absolute, (*cookie.journal_dirs, *cookie.ledger_dirs))
        state = "fits" if _absolute(found.place) in own else "fits, under another path"
    return msgspec.structs.replace(found, state=state)


def _with_history(
    files: FileSystem, store: MetadataStore, config: BookieConfig, judged: list[FoundCookie]
) -> list[FoundCookie]:
    """Return the cookies, with the history that fitting directories lack in their state."""
    fitting = {
        one.place: one.cookie.bookie_id
        for one in judged
        if one.cookie is not None and one.state.startswith("fits")
    }
    reasons: dict[str, str] = {}
    for bookie_id in sorted(set(fitting.values())):
        own = {path for path, its_id in fitting.items() if its_id == bookie_id}
        journals = {no: path for no, path in enumerate(config.journal_dirs) if path in own}
        ledger_dirs = [path for path in config.ledger_dirs if path in own]
        known = known_history(BookieRegistry(store), bookie_id)
        try:
            missing = missing_history(files, journals, ledger_dirs, known)
        except CorruptRecordError as error:
            where = error.where.rpartition("/")[0]
            reasons[where] = f"its history cannot be compared: {error}"
        else:
            reasons |= {one.path: f"{one.reason}: the cluster knows {known}" for one in missing}
    return [
        msgspec.structs.replace(one, state=f"{one.state}, but {reasons[one.place]}")
        if one.place in reasons
        else one
        for one in judged
    ]


def _in_metadata(store: MetadataStore, cookies: dict[str, Cookie], bookie_id: str) -> FoundCookie:
    if bookie_id not in cookies:
        return FoundCookie(store.address, None, f"no cookie of bookie {bookie_id}")
    registered = BookieRegistry(store).resolve(bookie_id)
    state = "not running" if registered is None else f"running at {registered.address}"
    known = known_history(BookieRegistry(store), bookie_id)
    cookie = cookies[bookie_id]
    return FoundCookie(store.address, cookie, state, known.incarnation, known.has_served)


def _check_stopped(store: MetadataStore, bookie_id: str) -> None:
    registered = BookieRegistry(store).resolve(bookie_id)
    if registered is not None:
        raise BookieError(
            f"bookie {bookie_id} is registered at {registered.address}: stop it first; if it was "
            "killed, its registration ends with its session, some seconds later"
        )


def _unknown(bookie_id: str) -> InvalidOptionError:
    return InvalidOptionError("bookie", bookie_id, "the cluster has no cookie for such a bookie")


def _absolute(path: str) -> Path:
    return Path(path).absolute()
