"""Taking one of several directories of a bookie out of service, and bringing it back.

    take_out   by the bookie's process, after the directory made the bookie stop; by an operator,
               for a bookie that does not start because of it (``retire``)
    settle     by the next start, before the bookie serves: possible losses go into limbo
    renew      by an operator, for a stopped bookie: an empty disk takes the directory's place

The bookie does not read a directory out of service. It does not know the ledgers in it, or those
whose latest records were only there. So every earlier ledger goes into limbo until it was checked
(``zbk.durability.limbo``). Their other entries are read as usual.

Source: BookKeeper's ``LedgerDirsManager`` and its listener ``diskFailed``.
"""

from collections.abc import Callable, Sequence

import msgspec

from zbk.actors.identity.history import forget_journal
from zbk.actors.identity.identity import (
    directories,
    in_service,
    local_cookie,
    place_of,
    service_note,
)
from zbk.actors.identity.locks import locked
from zbk.actors.identity.losses import Losses
from zbk.config import BookieConfig
from zbk.errors import BookieError, InvalidOptionError, NoSpaceError, StorageFailedError
from zbk.metadata.values import encode
from zbk.storage.directory.identity import (
    COOKIE_NAME,
    INCARNATION_NAME,
    LOCK_NAME,
    read_cookie,
    write_cookie,
    write_place,
)
from zbk.storage.directory.service_note import OutOfService, ServiceNote, write_note
from zbk.storage.directory.wipe import remove_tree
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.entry_logs.new_logs import note_anew
from zbk.storage.journal.last_mark import LastMark, LogMark
from zbk.system.clock import wall_ms
from zbk.system.event_log import EventLog
from zbk.system.files import FileSystem

LOG = EventLog("zbk.bookie")

COPIED_NAMES = ("deleted_ledgers", "limbo", "serving", INCARNATION_NAME)
"""The files that a new ledger directory gets from another one."""

_NOT_OURS = ("lost+found", LOCK_NAME, f"{COOKIE_NAME}.new")


def failed_directory(
    files: FileSystem, config: BookieConfig, error: BaseException | None
) -> str | None:
    """Return the directory to take out of service after a failure, or ``None``.

    It has the path of the failed write, and another directory of its kind is left.
    """
    if not isinstance(error, StorageFailedError) or isinstance(error, NoSpaceError):
        return None
    path = error.path
    left = in_service(files, config)
    for one in left:
        if path == one or path.startswith(f"{one}/"):
            of_kind = [other for other in _of_kind(config, one) if other in left]
            return one if len(of_kind) > 1 else None
    return None


def take_out(files: FileSystem, config: BookieConfig, path: str, reason: str) -> None:
    """Record, durably, in all other directories that a directory is out of service.

    Raises:
        StorageFailedError: another directory cannot be written either.
    """
    lost = OutOfService(
        path=path,
        kind="journal" if path in config.journal_dirs else "ledger",
        reason=reason,
        time_ms=wall_ms(),
        ledger_id_bound=None,
    )
    note = service_note(files, config).with_one(lost)
    _write(files, [one for one in directories(config) if one not in note.paths], note)
    LOG.error(
        "directory.out_of_service",
        "%(directory)s is OUT OF SERVICE: %(reason)s. The bookie continues with %(remaining)s; "
        "about missing entries of earlier ledgers it answers neither yes nor no until they are "
        "checked. Replace the disk, stop the bookie, run `zbk bookie renew-dir %(directory)s` "
        "with an empty one there, and start again",
        directory=path,
        reason=reason,
        remaining=" and ".join(one for one in _of_kind(config, path) if one not in note.paths),
    )


def settle(
    files: FileSystem,
    config: BookieConfig,
    note: ServiceNote,
    losses: Losses,
    next_ledger_id: Callable[[], int],
) -> None:
    """Put the ledgers of lost directories into limbo, once; update the note.

    Comes before the bookie serves, and before storage is opened.

    Raises:
        StorageFailedError: writing failed; ``NoSpaceError`` among them.
        MetadataUnavailableError: the metadata store does not give the next ledger id.
    """
    for one in note.directories:
        if one.ledger_id_bound is None:
            bound = losses.lose_directory(next_ledger_id)
            note = note.with_one(msgspec.structs.replace(one, ledger_id_bound=bound))
    if note.generation:
        _write(files, in_service(files, config), note)


def check_retire(files: FileSystem, config: BookieConfig, path: str) -> None:
    """Check that an operator may take a directory out of service.

    Raises:
        InvalidOptionError: it is not one of the bookie's, or out of service already.
        BookieError: it is the last one of its kind.
    """
    left = in_service(files, config)
    if path not in directories(config):
        told = f"the bookie has {' and '.join(directories(config))}"
        raise InvalidOptionError("directory", path, told)
    if path not in left:
        raise InvalidOptionError("directory", path, "it is out of service already")
    if len([one for one in _of_kind(config, path) if one in left]) < 2:
        raise BookieError(
            f"{path} is the last directory of its kind, and a bookie needs one; give the "
            "bookie up with `zbk bookie cookie delete`"
        )


def retire(files: FileSystem, config: BookieConfig, path: str) -> None:
    """Retire a directory of a stopped bookie, in any state, from service.

    Raises:
        InvalidOptionError, BookieError: as ``check_retire``.
        DirectoryInUseError: the bookie is running.
        CookieMismatchError: the other directories are not of one bookie.
        StorageFailedError: another directory cannot be written.
    """
    check_retire(files, config, path)
    with locked(files, [one for one in in_service(files, config) if one != path]):
        local_cookie(files, config, besides=path)
        take_out(files, config, path, "an operator has taken it out of service")


def check_renew(files: FileSystem, config: BookieConfig, path: str) -> None:
    """Check that a directory may come back into service, empty.

    Raises:
        InvalidOptionError: it is not out of service.
        BookieError: it has data that are not this bookie's, or does not exist.
        CookieMismatchError: the other directories are not of one bookie.
        StorageFailedError: it cannot be read.
    """
    if path not in service_note(files, config).paths:
        raise InvalidOptionError("directory", path, "it is not out of service")
    cookie = encode(local_cookie(files, config))
    with FailStop().guard(path, "write"):
        if not files.exists(path):
            raise BookieError(f"{path} is not there: is the disk mounted?")
        names = names_in(files, path)
        if names and read_cookie(files, path) not in (None, cookie):
            raise BookieError(f"{path} belongs to another bookie: empty it first")
        if names and read_cookie(files, path) is None:
            raise BookieError(f"{path} is not empty (it has {names[0]!r}): empty it first")


def renew(files: FileSystem, config: BookieConfig, path: str) -> None:
    """Bring a directory of a stopped bookie back into service, empty. It may be run again.

    Raises:
        InvalidOptionError, BookieError, CookieMismatchError: as ``check_renew``.
        DirectoryInUseError: the bookie is running.
        StorageFailedError: reading or writing failed.
    """
    check_renew(files, config, path)
    note = service_note(files, config)
    others = in_service(files, config)
    cookie = local_cookie(files, config)
    with locked(files, [*others, path]), FailStop().guard(path, "write"):
        # the cookie first: with it this can be run again; the note decides
        if read_cookie(files, path) is None:
            write_cookie(files, path, encode(cookie))
        for name in names_in(files, path):
            if name != COOKIE_NAME:
                remove_tree(files, f"{path}/{name}")
        files.sync_dir(path)
        ledger_dirs = [one for one in config.ledger_dirs if one in others]
        if path in config.journal_dirs:
            forget_journal(files, ledger_dirs, config.journal_dirs.index(path))
        else:
            make_ledger_directory(files, path, ledger_dirs[0], cookie.bookie_id)
        write_place(files, path, place_of(config, path))
        _write(files, [*others, path], note.without(path))


def names_in(files: FileSystem, path: str) -> list[str]:
    """Return the names in a directory, without those that show nothing about its use."""
    return [name for name in files.list_dir(path) if name not in _NOT_OURS]


def make_ledger_directory(files: FileSystem, path: str, other: str, bookie_id: str) -> None:
    """Make a ledger directory without ledgers, with the files of a checkpoint."""
    for name in ("index", "logs"):
        files.make_dirs(f"{path}/{name}")
    for name in COPIED_NAMES:
        if files.exists(f"{other}/{name}"):
            _copy(files, f"{other}/{name}", f"{path}/{name}")
    files.sync_dir(path)
    mark = LastMark(files, other, FailStop()).load()
    if mark is not None:
        LastMark(files, path, FailStop()).write(_without_ledgers(mark))
    note_anew(files, path, bookie_id.encode(), ())


# ------------------------------------------------------------------ private


def _without_ledgers(mark: LogMark) -> LogMark:
    """Return the mark of a directory without entries."""
    return msgspec.structs.replace(mark, entry_log_id=0, entry_log_size=0, has_census=False)


def _copy(files: FileSystem, source: str, target: str) -> None:
    old = files.open(source, write=False)
    try:
        content = old.pread(old.size(), 0)
    finally:
        old.close()
    new = files.open(target, create=True)
    try:
        new.pwrite([content], 0)
        new.sync()
    finally:
        new.close()


def _of_kind(config: BookieConfig, path: str) -> Sequence[str]:
    return config.journal_dirs if path in config.journal_dirs else config.ledger_dirs


def _write(files: FileSystem, dirs: Sequence[str], note: ServiceNote) -> None:
    for directory in dirs:
        with FailStop().guard(directory, "write"):
            write_note(files, directory, note)
