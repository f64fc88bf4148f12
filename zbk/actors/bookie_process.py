"""A bookie as a process: what ``zbk bookie init`` and ``zbk bookie run`` do."""

import logging
import signal
import sys
from collections.abc import Callable
from types import FrameType

from zbk.actors.bookie import Bookie
from zbk.actors.identity import init_identity
from zbk.config import BookieConfig
from zbk.errors import InvalidOptionError
from zbk.metadata.connect import open_store
from zbk.metadata.values import BookieRegistration
from zbk.system.files import OsFiles
from zbk.system.memory import keep_freed_memory

logger = logging.getLogger("zbk.bookie")

SWITCH_INTERVAL_S = 0.0005
"""A thread of a bookie waits this long, not Python's 5 ms, for one that does not give way."""

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


def run_bookie(config: BookieConfig, *, on_ready: Callable[[BookieRegistration], None]) -> int:
    """Serve in this process until SIGTERM or SIGINT; return the exit code.

    ``on_ready`` is called once others can find the bookie.

    Raises:
        ZbkError: it can not start.
    """
    _check(config)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    keep_freed_memory(KEPT_MEMORY_SIZE)
    bookie = Bookie(config)

    def stop(number: int, _frame: FrameType | None) -> None:
        logger.info("stopping on %s", signal.Signals(number).name)
        bookie.request_stop()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        on_ready(bookie.start())
        return bookie.run_until_ended()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _check(config: BookieConfig) -> None:
    if not config.metadata:
        raise InvalidOptionError(
            "metadata", "", "a bookie needs the address of its cluster's metadata store"
        )
