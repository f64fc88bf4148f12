"""SIGHUP in a server process: read the configuration again, apply what is safe, log the rest.

The log level and the live options (``zbk.config.running``) are applied at once. Other options need
a restart. Options that have changed are logged by name, without values, which may be passwords.
"""

import logging
import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final, NamedTuple

from zbk.config import AutorecoveryConfig, BookieConfig, LogConfig
from zbk.config.running import RunningOptions
from zbk.config.sources import table_of
from zbk.errors import ZbkError
from zbk.system.event_log import EventLog, Names

LOG: Final = EventLog("zbk.config")

_RELOADING: Final = threading.Lock()


class Loaded(NamedTuple):
    """The configuration of a process, as flags, environment and file give it."""

    log: LogConfig
    parts: tuple[BookieConfig | AutorecoveryConfig, ...]


def reload_on_hangup(
    before: Loaded, load: Callable[[], Loaded], running: Sequence[RunningOptions[Any]]
) -> None:
    """Start to re-read the configuration at each SIGHUP; under ``nohup`` SIGHUP stays ignored."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return

    def on_hangup(_number: int, _frame: FrameType | None) -> None:
        # in a thread of its own: the main thread may hold any lock now
        threading.Thread(target=reload, args=(before, load, running), name="zbk-reload").start()

    signal.signal(signal.SIGHUP, on_hangup)


def reload(
    before: Loaded, load: Callable[[], Loaded], running: Sequence[RunningOptions[Any]]
) -> None:
    """Read the configuration, apply what needs no restart, and log the names of the rest.

    ``before`` is the configuration that the process started with, ``running`` the options of its
    parts. One at a time, so that of two
    the later one reads the configuration last, and counts.
    """
    with _RELOADING:
        _reload(before, load, running)


def _reload(
    before: Loaded, load: Callable[[], Loaded], running: Sequence[RunningOptions[Any]]
) -> None:
    try:
        now = load()
    except (ZbkError, OSError) as error:
        LOG.error("config.refused", "the configuration stays as it is: %(error)s", error=error)
        return
    logger, level = logging.getLogger("zbk"), logging.getLevelName(now.log.level.upper())
    logger.setLevel(min(logger.level, level))  # a level that hides the line comes after it
    applied, waiting = set[str](), set[str]()
    for options, wanted in zip(running, now.parts, strict=True):
        changed = options.reread(wanted)
        table = table_of(type(wanted))
        applied |= {f"{table}.{name}" for name in changed.applied}
        waiting |= {f"{table}.{name}" for name in changed.need_restart}
    if before.log.format != now.log.format:
        waiting.add("log.format")
    LOG.info(
        "config.reloaded",
        "the configuration was re-read: applied: %(applied)s; log level %(log_level)s; need a "
        "restart: %(need_restart)s",
        log_level=now.log.level,
        applied=Names(sorted(applied)),
        need_restart=Names(sorted(waiting)),
    )
    logger.setLevel(level)
