"""What commands for a stopped bookie do around storage: whose directories, held by whom, who asks.

Source: BookKeeper's ``BookieShell``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from zbk.actors.cookies import delete
from zbk.actors.identity import check_identity, directories, local_cookie
from zbk.config import BookieConfig
from zbk.errors import InvalidOptionError, NoSuchLedgerError, StorageFailedError
from zbk.metadata.ledgers import LedgerStore
from zbk.metadata.store import MetadataStore
from zbk.metadata.values import Cookie, decode
from zbk.protocol.digest import is_same_secret, ledger_key, password_digest
from zbk.storage import unfinished, wipe
from zbk.storage.identity import lock_directory, read_cookie
from zbk.storage.rebuild import IndexRebuild, RebuildReport
from zbk.storage.rebuild_sources import LedgerSecret
from zbk.storage.sanity import SanityCheck
from zbk.system.files import FileSystem


@contextmanager
def check(
    files: FileSystem, store: MetadataStore | None, config: BookieConfig
) -> Iterator[SanityCheck]:
    """Lend a check of the bookie's files; its directories stay locked meanwhile.

    Raises:
        CookieMismatchError: directories, and metadata if there is a store, do not agree.
        DirectoryInUseError: the bookie is running.
    """
    cookie = _identity(files, store, config)
    with _locked(files, directories(config)):
        yield SanityCheck(
            files,
            journal_dir=config.journal_dir,
            ledger_dir=config.ledger_dir,
            bookie_id=cookie.bookie_id,
        )


def rebuild_index(
    files: FileSystem,
    store: MetadataStore | None,
    config: BookieConfig,
    passwords: Sequence[bytes],
    tell: Callable[[str, int], None],
) -> RebuildReport | None:
    """Make the index of a stopped bookie anew; ``None``: an earlier run was carried to its end.

    Of ledgers whose header is lost the metadata are asked; ``passwords`` are those to try.

    Raises:
        CookieMismatchError, DirectoryInUseError: as ``check``.
        CorruptRecordError: entries may be lost; says where. Nothing was changed.
        InvalidOptionError: metadata, or a ledger's password, are needed and were not given.
    """
    cookie = _identity(files, store, config)
    with _locked(files, directories(config)):
        return IndexRebuild(
            files,
            journal_dir=config.journal_dir,
            ledger_dir=config.ledger_dir,
            bookie_id=cookie.bookie_id,
            ask_others=lambda ledger_id: _ask(store, ledger_id, passwords),
            tell=tell,
        ).run()


def wipe_bookie(files: FileSystem, store: MetadataStore | None, config: BookieConfig) -> None:
    """Remove all data in the directories of a stopped bookie; with a store, its cookies, too.

    Raises:
        CookieMismatchError, DirectoryInUseError: as ``check``.
        BookieError: it is registered.
        StorageFailedError: something can not be removed.
    """
    dirs = directories(config)
    if unfinished.unfinished_command(files, config.ledger_dir) != wipe.COMMAND:
        local_cookie(files, config)  # they are one bookie's, or nothing is touched
    with _locked(files, dirs):
        if store is not None:
            _forget(files, store, dirs)
        try:
            wipe.wipe(files, dirs, config.ledger_dir, with_cookie=store is not None)
        except OSError as error:
            raise StorageFailedError(config.ledger_dir, "format", str(error)) from error


def _forget(files: FileSystem, store: MetadataStore, dirs: Sequence[str]) -> None:
    for directory in dirs:
        content = read_cookie(files, directory)
        if content is not None:
            bookie_id = decode(Cookie, content, directory).bookie_id
            with suppress(InvalidOptionError):  # forgotten before
                delete(store, bookie_id)


def _identity(files: FileSystem, store: MetadataStore | None, config: BookieConfig) -> Cookie:
    return local_cookie(files, config) if store is None else check_identity(files, store, config)


@contextmanager
def _locked(files: FileSystem, dirs: Sequence[str]) -> Iterator[None]:
    with ExitStack() as stack:
        for directory in dirs:
            stack.callback(lock_directory(files, directory).close)
        yield


def _ask(
    store: MetadataStore | None, ledger_id: int, passwords: Sequence[bytes]
) -> LedgerSecret | None:
    if store is None:
        raise InvalidOptionError(
            "metadata", "", f"the index of ledger {ledger_id} is lost: the metadata know the rest"
        )
    try:
        metadata, _ = LedgerStore(store).read(ledger_id)
    except NoSuchLedgerError:
        return None
    for password in (b"", *passwords):
        if is_same_secret(password_digest(password, ledger_id), metadata.password_digest):
            return LedgerSecret(ledger_key(password, ledger_id), metadata.ledger_type)
    raise InvalidOptionError(
        "password",
        "...",
        f"the index of ledger {ledger_id} is lost, and the bookie needs its password again: "
        "give --password-file",
    )
