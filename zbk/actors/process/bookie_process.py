"""A bookie as a process: what ``zbk bookie init`` and ``zbk bookie run`` do."""

import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from zbk.actors.identity.identity import init_identity
from zbk.actors.identity.service import failed_directory, take_out
from zbk.actors.process.bookie import Bookie
from zbk.config import BookieConfig
from zbk.errors import InvalidOptionError, StorageFailedError
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import BookieRegistration
from zbk.system.descriptors import raise_descriptor_limit
from zbk.system.files import FileSystem, OsFiles
from zbk.system.memory import keep_freed_memory

logger = logging.getLogger("zbk.bookie")

SWITCH_INTERVAL_S = 0.0005
"""A thread of a bookie waits this long, not Python's 5 ms, for one that does not give way."""

GC_THRESHOLDS = (50_000, 20, 50)
"""Python looks for cycles rarely: what a bookie makes for a request has none, and with many ledgers
each look goes over a million objects that stay."""

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
) -> int:
    """Serve in this process until SIGTERM or SIGINT; return the exit code.

    ``on_started`` is called before that, with the bookie and its id: what goes with it may begin.
    ``is_wiped_on_purpose``: one that `zbk bookie format` has wiped starts under its old id.
    ``on_ready`` is called once others can find the bookie. ``files``: not the operating system's
    file system, but this one. ``http``: the URL of the metrics, for the registration.

    Raises:
        ZbkError: it cannot start.
    """
    _check(config)
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    keep_freed_memory(KEPT_MEMORY_SIZE)
    raise_descriptor_limit()
    bookies: list[Bookie] = []  # the last one runs
    stop_wanted = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        logger.info("stopping on %s", signal.Signals(number).name)
        stop_wanted.set()
        for bookie in bookies[-1:]:
            bookie.request_stop()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while True:
            bookie = Bookie(config, files, is_wiped_on_purpose=is_wiped_on_purpose, http=http)
            bookies.append(bookie)
            if stop_wanted.is_set():
                bookie.request_stop()
            try:
                registration = bookie.start()
                on_started(bookie, registration.bookie_id)
                on_ready(registration)
                exit_code = bookie.run_until_ended()
            except StorageFailedError as error:
                if not _goes_on_without(config, error):
                    raise
            else:
                if stop_wanted.is_set() or not _goes_on_without(config, bookie.failure):
                    return exit_code
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _goes_on_without(config: BookieConfig, error: BaseException | None) -> bool:
    """Retire the directory that a bookie has failed for; false: it cannot go on.

    At most once for each: what is out of service is not written to.
    """
    files = OsFiles()
    path = failed_directory(files, config, error)
    if path is None:
        return False
    take_out(files, config, path, str(error))
    return True


def _check(config: BookieConfig) -> None:
    if not config.metadata:
        raise InvalidOptionError(
            "metadata", "", "a bookie needs the address of its cluster's metadata store"
        )
