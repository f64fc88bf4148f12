"""SIGHUP in a server process: read the configuration again, apply what is safe, log the rest.

The log level is applied at once. Other options need a restart: each that has changed is logged by
name, without its value, which may be a password.
"""

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from zbk.config import AutorecoveryConfig, BookieConfig, LogConfig
from zbk.config.sources import table_of
from zbk.errors import ZbkError
from zbk.system.event_log import EventLog, Names

LOG: Final = EventLog("zbk.config")


ConfigT = TypeVar("ConfigT", bound=BookieConfig | AutorecoveryConfig)


class Loaded(NamedTuple, Generic[ConfigT]):
    """The configuration of a process, as flags, environment and file give it."""

    log: LogConfig
    main: ConfigT


def reload_on_hangup(before: Loaded[Any], load: Callable[[], Loaded[Any]]) -> None:
    """Start to re-read the configuration at each SIGHUP; under ``nohup`` SIGHUP stays ignored."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return

    def on_hangup(_number: int, _frame: FrameType | None) -> None:
        # in a thread of its own: the main thread may hold any lock now
        threading.Thread(target=reload, args=(before, load), name="zbk-reload").start()

    signal.signal(signal.SIGHUP, on_hangup)


def reload(before: Loaded[Any], load: Callable[[], Loaded[Any]]) -> None:
    """Read the configuration, apply the log level, and log the options that need a restart.

    ``before`` is the configuration that the process started with.
    """
    try:
        now = load()
    except (ZbkError, OSError) as error:
        LOG.error("config.refused", "the configuration stays as it is: %(error)s", error=error)
        return
    logger, level = logging.getLogger("zbk"), logging.getLevelName(now.log.level.upper())
    logger.setLevel(min(logger.level, level))  # a level that hides the line comes after it
    waiting = Names(sorted(_changes(before, now)))
    LOG.info(
        "config.reloaded",
        "the configuration was re-read: log level %(log_level)s; need a restart: %(need_restart)s",
        log_level=now.log.level,
        need_restart=waiting,
    )
    logger.setLevel(level)


def _changes(before: Loaded[Any], now: Loaded[Any]) -> set[str]:
    """Return the names of the options that have changed and are not applied."""
    found = {"log.format"} if before.log.format != now.log.format else set()
    return found | {
        f"{table_of(type(before.main))}.{name}"
        for name in before.main.__struct_fields__
        if getattr(before.main, name) != getattr(now.main, name)
    }
