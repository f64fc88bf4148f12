"""More directories for a bookie: empty ones are added after those that its cookie lists.

For a bookie that has stopped in good order, with a configuration that names the old directories in
their order, then new ones. The steps, each durable before the next:

    note      in each old ledger directory: the command is unfinished, so that no start succeeds
    marks     of the old ledger directories get a place for each new journal, at its start
    new       the cookie first, which shows that the directory may be emptied; then a ledger
              directory gets the files of a checkpoint, without ledgers
    old       place and cookie are replaced
    store     the cookie in the metadata gets the new directories, by compare-and-swap
    end       the notes are removed

The new cookie follows from the old one and the configuration. After a crash the command, with the
same directories, continues: each directory then has the old cookie or the new one. A new directory
is emptied again only while the metadata have the old cookie: no start has used it then.

Nothing moves. New ledgers go to all directories. With another journal, ledgers change their journal
as when one comes back into service (``zbk.storage.journal.journals``).

Source: BookKeeper's ``allowStorageExpansion``, which adds ledger directories only.
"""

from collections.abc import Sequence

import msgspec

from zbk.actors.identity.identity import EXPAND_COMMAND, directories, place_of, service_note
from zbk.actors.identity.locks import locked
from zbk.actors.identity.service import make_ledger_directory, names_in
from zbk.config import BookieConfig
from zbk.errors import BookieError, CookieMismatchError, InvalidOptionError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import Cookie, decode, encode
from zbk.storage.directory import unfinished
from zbk.storage.directory.identity import (
    COOKIE_NAME,
    read_cookie,
    replace_cookie,
    write_place,
)
from zbk.storage.directory.serving import SERVING_NAME
from zbk.storage.directory.wipe import remove_tree
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.last_mark import LastMark
from zbk.system.files import FileSystem


class Expansion(msgspec.Struct, frozen=True):
    """The directories that a bookie gets, and its cookies before and after."""

    before: Cookie
    after: Cookie

    @property
    def is_complete(self) -> bool:
        """True when the metadata have all directories already."""
        return self.before == self.after

    @property
    def new_journals(self) -> tuple[str, ...]:
        """The journal directories that are new."""
        return self.after.journal_dirs[len(self.before.journal_dirs) :]

    @property
    def new_ledger_dirs(self) -> tuple[str, ...]:
        """The ledger directories that are new."""
        return self.after.ledger_dirs[len(self.before.ledger_dirs) :]

    @property
    def old_ledger_dirs(self) -> tuple[str, ...]:
        """The other ledger directories; a lone one may have been moved."""
        return self.after.ledger_dirs[: len(self.before.ledger_dirs)]

    @property
    def new(self) -> tuple[str, ...]:
        """All directories that are new, journals first."""
        return (*self.new_journals, *self.new_ledger_dirs)


def check_expansion(files: FileSystem, store: MetadataStore, config: BookieConfig) -> Expansion:
    """Return the expansion that a configuration asks for. Changes nothing; the bookie may run.

    Raises:
        InvalidOptionError: the old directories are not all there in their order, or none is new.
        BookieError: a new directory is not there, is not empty, or one is out of service.
        CookieMismatchError: the directories, or the metadata, are not of one bookie.
        StorageFailedError: a directory cannot be read.
    """
    paths = directories(config)
    if service_note(files, config).paths:
        raise BookieError(
            "a directory is out of service: bring it back first, with `zbk bookie renew-dir`"
        )
    with FailStop().guard(paths[-1], "read"):
        cookies = {path: read_cookie(files, path) for path in paths if files.exists(path)}
    known = _known(store, config, cookies)
    after = msgspec.structs.replace(
        known, journal_dirs=config.journal_dirs, ledger_dirs=config.ledger_dirs
    )
    found = Expansion(known, after)
    _check_prefix("journal_dir", known.journal_dirs, config.journal_dirs)
    _check_prefix("ledger_dir", known.ledger_dirs, config.ledger_dirs)
    with FailStop().guard(paths[-1], "read"):
        is_begun = any(_is_begun(files, path) for path in config.ledger_dirs)
    if found.is_complete and not is_begun:
        told = " and ".join(paths)
        raise InvalidOptionError(
            "directories", told, "none is new: add the new ones after those of the bookie"
        )
    _check_others(files, found.old_ledger_dirs)
    allowed = {encode(known), encode(after)} if is_begun else {encode(known)}
    for path in paths:
        if path in found.new:
            _check_new(files, path, cookies.get(path), encode(after) if is_begun else None)
        elif cookies.get(path) not in allowed:
            raise CookieMismatchError(
                f"{path} does not have the cookie of bookie {known.bookie_id}: mount its disks; "
                f"if an expansion was interrupted, give the same directories as then"
            )
    return found


def expand(files: FileSystem, store: MetadataStore, config: BookieConfig) -> Expansion:
    """Add new, empty directories to a stopped bookie. It may be run again.

    Raises:
        InvalidOptionError, BookieError, CookieMismatchError: as ``check_expansion``.
        BookieError: also if the bookie did not stop in good order.
        DirectoryInUseError: the bookie is running.
        StorageFailedError: reading or writing failed.
        MetadataUnavailableError: the store may or may not have the new cookie.
    """
    check_expansion(files, store, config)
    with locked(files, directories(config)):
        found = check_expansion(files, store, config)
        if files.exists(f"{config.ledger_dirs[0]}/{SERVING_NAME}"):
            raise BookieError(
                f"bookie {found.before.bookie_id} did not stop in good order, and its journal may "
                "have what its directories lack: start it, stop it, and run this again"
            )
        if not found.is_complete:
            _check_stopped(store, found.before.bookie_id)
            _change_directories(files, found)
            BookieRegistry(store).expand_cookie(found.before, found.after)
        for path in found.after.ledger_dirs:
            with FailStop().guard(path, "write"):
                if _is_begun(files, path):
                    unfinished.end(files, path)
    return found


# ------------------------------------------------------------------ steps


def _change_directories(files: FileSystem, found: Expansion) -> None:
    after = found.after
    for path in found.old_ledger_dirs:
        with FailStop().guard(path, "write"):
            unfinished.begin(files, path, EXPAND_COMMAND)
            _extend_mark(files, path, len(after.journal_dirs))
    for path in found.new:
        with FailStop().guard(path, "write"):
            replace_cookie(files, path, encode(after))
            for name in names_in(files, path):
                if name != COOKIE_NAME:
                    remove_tree(files, f"{path}/{name}")
            files.sync_dir(path)
            if path in found.new_ledger_dirs:
                make_ledger_directory(files, path, after.ledger_dirs[0], after.bookie_id)
    for path in (*after.journal_dirs, *after.ledger_dirs):
        with FailStop().guard(path, "write"):
            write_place(files, path, place_of(after, path))
            replace_cookie(files, path, encode(after))


def _extend_mark(files: FileSystem, ledger_dir: str, journal_count: int) -> None:
    last_mark = LastMark(files, ledger_dir, FailStop())
    mark = last_mark.load()
    if mark is not None and len(mark.positions) < journal_count:
        last_mark.write(last_mark.extend(journal_count))


# ------------------------------------------------------------------ checks


def _known(store: MetadataStore, config: BookieConfig, cookies: dict[str, bytes | None]) -> Cookie:
    """Return the cookie in the metadata of the bookie in the first directory."""
    first = config.ledger_dirs[0]
    content = cookies.get(first)
    if content is None:
        raise CookieMismatchError(
            f"{first} has no cookie: give the directories of the bookie first, then the new ones; "
            "a new bookie is made with `zbk bookie init`"
        )
    bookie_id = decode(Cookie, content, first).bookie_id
    known = BookieRegistry(store).read_cookie(bookie_id, is_fresh=True)
    if known is None:
        raise CookieMismatchError(
            f"the cluster at {store.address} has no cookie for bookie {bookie_id}"
        )
    return known


def _check_prefix(name: str, old: Sequence[str], given: Sequence[str]) -> None:
    is_moved = len(old) == 1 and given  # its cookie shows whose it is
    if not is_moved and tuple(given[: len(old)]) != tuple(old):
        raise InvalidOptionError(
            name,
            ", ".join(given),
            f"must begin with {', '.join(old)}, in this order, as in the cookie: directories can "
            "only be added",
        )


def _check_others(files: FileSystem, ledger_dirs: Sequence[str]) -> None:
    for path in ledger_dirs:
        with FailStop().guard(path, "read"):
            command = unfinished.unfinished_command(files, path)
            if unfinished.was_wiped(files, path) or command not in (None, EXPAND_COMMAND):
                unfinished.check_finished(files, path)


def _check_new(files: FileSystem, path: str, cookie: bytes | None, resumed: bytes | None) -> None:
    if not files.exists(path):
        raise BookieError(f"{path} is not there: make it, or mount its disk")
    with FailStop().guard(path, "read"):
        names = names_in(files, path)
    if not names or (cookie is not None and cookie == resumed):
        return
    if cookie is not None:
        raise BookieError(f"{path} belongs to a bookie already: only empty directories are added")
    raise BookieError(
        f"{path} is not empty (it has {names[0]!r}): only empty directories are added"
    )


def _check_stopped(store: MetadataStore, bookie_id: str) -> None:
    registry = BookieRegistry(store)
    registered = registry.resolve(bookie_id)
    if registered is not None:
        registry.wait_unregistered(bookie_id)


def _is_begun(files: FileSystem, path: str) -> bool:
    return unfinished.unfinished_command(files, path) == EXPAND_COMMAND
