"""Commands for a stopped bookie: identity, locks and metadata around the tools of storage.

Source: BookKeeper's ``BookieShell``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from zbk.actors.identity.cookies import delete
from zbk.actors.identity.history import known_history
from zbk.actors.identity.identity import check_identity, in_service, local_cookie, service_note
from zbk.actors.identity.ledger_secrets import secret_of
from zbk.actors.identity.locks import locked
from zbk.config import BookieConfig
from zbk.errors import (
    CookieMismatchError,
    CorruptRecordError,
    InvalidOptionError,
    StorageFailedError,
)
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import Cookie, decode
from zbk.storage.directory import unfinished, wipe
from zbk.storage.directory.history import missing_history
from zbk.storage.directory.identity import read_cookie
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.tools.rebuild import IndexRebuild, RebuildReport
from zbk.storage.tools.rebuild_sources import LedgerSecret
from zbk.storage.tools.sanity import Problem, SanityCheck
from zbk.system.files import FileSystem


@contextmanager
def check(
    files: FileSystem, store: MetadataStore | None, config: BookieConfig
) -> Iterator[SanityCheck]:
    """Yield a check of the bookie's files; its directories stay locked meanwhile.

    Raises:
        CookieMismatchError: directories, and metadata if there is a store, do not agree.
        DirectoryInUseError: the bookie is running.
    """
    cookie = _identity(files, store, config)
    with locked(files, in_service(files, config)):
        found = [] if store is None else _missing(files, store, config, cookie.bookie_id)
        yield SanityCheck(
            files,
            journal_dir=config.journal_dirs,
            ledger_dir=config.ledger_dirs,
            bookie_id=cookie.bookie_id,
            out_of_service=service_note(files, config).paths,
            found_before=found,
        )


def rebuild_index(
    files: FileSystem,
    store: MetadataStore | None,
    config: BookieConfig,
    passwords: Sequence[bytes],
    tell: Callable[[str, int], None],
) -> dict[str, RebuildReport | None]:
    """Rebuild the indexes of a stopped bookie, one after the other; return a report of each.

    ``None`` instead of a report: only the swap of an earlier run was finished. The metadata give
    the keys of ledgers whose header is lost; ``passwords`` are those to try.

    Raises:
        CookieMismatchError, DirectoryInUseError: as ``check``.
        CorruptRecordError: entries may be lost at the named place. Nothing was changed.
        InvalidOptionError: metadata or a ledger's password are needed and were not given.
    """
    cookie = _identity(files, store, config)
    used = in_service(files, config)
    ledger_dirs = [path for path in config.ledger_dirs if path in used]
    # directories without an index first: the other indexes show which ledgers are not in them
    ledger_dirs.sort(key=lambda path: files.exists(f"{path}/index"))
    with locked(files, used):
        reports = {
            path: IndexRebuild(
                files,
                journal_dir=config.journal_dirs,
                ledger_dir=path,
                bookie_id=cookie.bookie_id,
                ask_others=lambda ledger_id: _ask(store, ledger_id, passwords),
                out_of_service=service_note(files, config).paths,
                other_ledger_dirs=[other for other in ledger_dirs if other != path],
                tell=tell,
            ).run()
            for path in ledger_dirs
        }
        _leave_limbo(files, cookie, [path for path in config.ledger_dirs if path in used], reports)
        return reports


def _leave_limbo(
    files: FileSystem,
    cookie: Cookie,
    ledger_dirs: Sequence[str],
    reports: Mapping[str, RebuildReport | None],
) -> None:
    """Clear the ledgers that had lost their index and have all entries now."""
    fail_stop = FailStop()
    limbo = LimboFile(files, ledger_dirs[0], bookie_id=cookie.bookie_id, fail_stop=fail_stop)
    with limbo.guard("read"):
        limbo.load()
    for report in reports.values():
        if report is not None:
            limbo.clear_lost_indexes(report.whole)


def wipe_bookie(files: FileSystem, store: MetadataStore | None, config: BookieConfig) -> None:
    """Delete all data in the directories of a stopped bookie; with a store, its cookies, too.

    Directories out of service are not changed.

    Raises:
        CookieMismatchError, DirectoryInUseError: as ``check``; also if the store is another
            cluster's.
        BookieError: it is registered.
        StorageFailedError: something cannot be removed.
    """
    dirs = in_service(files, config)
    ledger_dirs = [path for path in config.ledger_dirs if path in dirs]
    begun = [unfinished.unfinished_command(files, path) for path in ledger_dirs]
    if wipe.COMMAND not in begun:
        local_cookie(files, config)  # fails unless they are one bookie's
    with locked(files, dirs):
        if store is not None:
            _forget(files, store, dirs)
        try:
            wipe.wipe(files, dirs, ledger_dirs, with_cookie=store is not None)
        except OSError as error:
            raise StorageFailedError(ledger_dirs[0], "format", str(error)) from error


def _missing(
    files: FileSystem, store: MetadataStore, config: BookieConfig, bookie_id: str
) -> list[Problem]:
    """Return the directories in service that lack the cluster's history of the bookie."""
    lost = service_note(files, config).paths
    journals = {no: path for no, path in enumerate(config.journal_dirs) if path not in lost}
    ledger_dirs = [path for path in config.ledger_dirs if path not in lost]
    known = known_history(BookieRegistry(store), bookie_id)
    try:
        missing = missing_history(files, journals, ledger_dirs, known)
    except CorruptRecordError as error:
        return [Problem(error.where, error.offset, error.reason)]
    return [Problem(one.path, 0, f"{one.reason}, but the cluster knows {known}") for one in missing]


def _forget(files: FileSystem, store: MetadataStore, dirs: Sequence[str]) -> None:
    instance = instance_id(store)
    for directory in dirs:
        content = read_cookie(files, directory)
        if content is None:
            continue
        cookie = decode(Cookie, content, directory)
        if cookie.instance_id != instance:
            raise CookieMismatchError(
                f"bookie {cookie.bookie_id} in {directory} belongs to cluster "
                f"{cookie.instance_id}, which keeps its cookie, and {store.address} is cluster "
                f"{instance}: check --metadata"
            )
        with suppress(InvalidOptionError):  # deleted by an earlier run
            delete(store, cookie.bookie_id)


def _identity(files: FileSystem, store: MetadataStore | None, config: BookieConfig) -> Cookie:
    return local_cookie(files, config) if store is None else check_identity(files, store, config)


def _ask(
    store: MetadataStore | None, ledger_id: int, passwords: Sequence[bytes]
) -> LedgerSecret | None:
    if store is None:
        raise InvalidOptionError(
            "metadata", "", f"the index of ledger {ledger_id} is lost: the metadata have its key"
        )
    return secret_of(LedgerStore(store), ledger_id, passwords)
