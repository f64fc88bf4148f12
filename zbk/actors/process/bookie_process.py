"""A bookie as a process: the implementation of ``zbk bookie init`` and ``zbk bookie run``."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from zbk.actors.identity.expansion import expand
from zbk.actors.identity.identity import init_identity
from zbk.actors.identity.service import failed_directory, take_out
from zbk.actors.process.bookie import Bookie
from zbk.audit.trail import AuditCounts
from zbk.config import NO_SECURITY, BookieConfig, SecurityConfig
from zbk.errors import InvalidOptionError, StorageFailedError, ZbkError
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.zookeeper_server import warn_of_outdated
from zbk.metadata.values import BookieRegistration
from zbk.system.descriptors import raise_descriptor_limit
from zbk.system.event_log import EventLog
from zbk.system.exposure import exposures_of, link_in
from zbk.system.files import FileSystem, OsFiles
from zbk.system.memory import collect_rarely, keep_freed_memory

LOG = EventLog("zbk.bookie")

SWITCH_INTERVAL_S = 0.0005
"""The time after which a thread of a bookie takes the interpreter from another; Python: 5 ms."""

KEPT_MEMORY_SIZE = 32 * 1024 * 1024


def init_bookie(config: BookieConfig) -> str:
    """Make a new bookie: id, directories, cookie, also in the metadata store. Return its id.

    Raises:
        InvalidOptionError: no metadata address, or no directories.
        CookieMismatchError: the directories belong to a bookie already.
        MetadataUnavailableError: the metadata store does not answer.
    """
    _check(config)
    store = open_store(config.metadata, session_timeout_ms=config.session_timeout_ms)
    try:
        return init_identity(OsFiles(), store, config)
    finally:
        store.close()


def run_bookie(
    config: BookieConfig,
    *,
    on_ready: Callable[[BookieRegistration], None],
    on_started: Callable[[Bookie, str], None] = lambda _bookie, _bookie_id: None,
    is_wiped_on_purpose: bool = False,
    files: FileSystem | None = None,
    http: str = "",
    security: SecurityConfig = NO_SECURITY,
) -> int:
    """Serve in this process until SIGTERM or SIGINT; return the exit code.

    ``on_started`` is called first, with the bookie and its id, to start what runs beside it;
    ``on_ready`` is called after that, when clients can find the bookie. ``is_wiped_on_purpose``: a
    bookie that `zbk bookie format` has wiped starts under its old id. ``files`` replaces the file
    system of the operating system. ``http`` is the URL of the metrics, for the registration.
    ``security`` has the bookie's key.

    Raises:
        ZbkError: it cannot start.
    """
    _check(config)
    collect_rarely()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    keep_freed_memory(KEPT_MEMORY_SIZE)
    raise_descriptor_limit()
    _check_directories(config if files is None else BookieConfig())
    bookies: list[Bookie] = []  # the last one runs
    audit_counts = AuditCounts()  # of all of them
    stop_wanted = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        stop_wanted.set()
        for bookie in bookies[-1:]:  # which logs it: a signal may have interrupted a log line
            bookie.request_stop(signal.Signals(number).name)

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while True:
            bookie = Bookie(
                config,
                files,
                is_wiped_on_purpose=is_wiped_on_purpose,
                http=http,
                security=security,
                audit_counts=audit_counts,
            )
            bookies.append(bookie)
            if stop_wanted.is_set():
                bookie.request_stop()
            try:
                registration = bookie.start()
                on_started(bookie, registration.bookie_id)
                on_ready(registration)
                if len(bookies) == 1:
                    warn_of_outdated(config.metadata)
                exit_code = bookie.run_until_ended()
            except StorageFailedError as error:
                if not _goes_on_without(config, error):
                    raise
                continue
            following = None if stop_wanted.is_set() else _next_config(config, bookie)
            if following is None:
                return exit_code
            config = following
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _next_config(config: BookieConfig, ended: Bookie) -> BookieConfig | None:
    """Return the options of the bookie that continues in place of one; ``None``: none does."""
    if ended.wanted_expansion is not None and ended.failure is None:
        return _expanded(config, ended.wanted_expansion)
    return config if _goes_on_without(config, ended.failure) else None


def _expanded(config: BookieConfig, wanted: BookieConfig) -> BookieConfig:
    """Add directories to the bookie that has stopped; return the options of the next one."""
    try:
        store = open_store(wanted.metadata, session_timeout_ms=wanted.session_timeout_ms)
        try:
            found = expand(OsFiles(), store, wanted)
        finally:
            store.close()
    except ZbkError as error:
        LOG.error(
            "bookie.expansion_failed",
            "directories were not added to the bookie, or not all of them: %(error)s; if the next "
            "start is refused, run `zbk bookie expand-storage` with the same configuration",
            error=error,
        )
        return config
    LOG.warning(
        "bookie.expanded",
        "the bookie has new directories: %(directories)s",
        directories=" and ".join(found.new),
    )
    _report_exposures(wanted)
    return wanted


def _goes_on_without(config: BookieConfig, error: BaseException | None) -> bool:
    """Retire the directory that made a bookie fail; return false if it cannot go on without it.

    Each directory is retired at most once: the bookie does not write to one out of service.
    """
    files = OsFiles()
    path = failed_directory(files, config, error)
    if path is None:
        return False
    take_out(files, config, path, str(error))
    return True


def _check_directories(config: BookieConfig) -> None:
    """Refuse what leads out of the directories, and report who else can read or change them.

    Raises:
        InvalidOptionError: a symbolic link is in one of them.
    """
    directories = {"journal_dir": config.journal_dirs, "ledger_dir": config.ledger_dirs}
    for option, paths in directories.items():
        for path in paths:
            link = link_in(path)
            if link is not None:
                reason = (
                    f"{link} is a symbolic link, and a bookie makes none: remove it, or move what "
                    "it leads to into its place. The directory itself may be a link"
                )
                raise InvalidOptionError(option, path, reason)
    _report_exposures(config)


def _report_exposures(config: BookieConfig) -> None:
    """Log which directories other users of the machine can read or change."""
    for path in (*config.journal_dirs, *config.ledger_dirs):
        for one in exposures_of(path, os.geteuid()):
            LOG.warning("bookie.directory_exposed", "%(exposure)s", exposure=str(one))


def _check(config: BookieConfig) -> None:
    if not config.metadata:
        raise InvalidOptionError(
            "metadata", "", "a bookie needs the address of its cluster's metadata store"
        )
