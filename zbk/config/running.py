"""The options of a process that runs: those that need no restart may change.

An option says in its declaration whether it is *live* (``Option.is_live``). Other options keep the
values with which the process started. Changes come from the admin API, and from the configuration
when SIGHUP makes the process read it again; then the configuration counts alone.

Threads: any. The function that applies options is called under a lock, one change at a time.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from zbk.config import AutorecoveryConfig, BookieConfig
from zbk.config.option import options_of
from zbk.config.sources import convert, table_of
from zbk.errors import InvalidOptionError

ConfigT = TypeVar("ConfigT", bound=BookieConfig | AutorecoveryConfig)

AUTORECOVERY: Final = f"{table_of(AutorecoveryConfig)}."
"""In front of the names of autorecovery's options, where they are among those of a bookie."""

FROM_THE_BOOKIE: Final = ("metadata", "http")
"""Options that autorecovery beside a bookie has from that bookie."""

SET_WHILE_RUNNING: Final = "admin API"
REREAD: Final = "configuration, read again"
"""Sources of values that have changed since the start."""


class Changed(NamedTuple):
    """The names of options that a change would alter."""

    applied: tuple[str, ...]
    need_restart: tuple[str, ...]


def live_options(config_type: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the options that need no restart."""
    return tuple(name for name, one in options_of(config_type).items() if one.is_live)


class RunningOptions(Generic[ConfigT]):
    """The options of one process, and who applies them."""

    def __init__(self, started: ConfigT) -> None:
        self._config = started
        self._lock = threading.Lock()
        self._apply: Callable[[ConfigT], None] = lambda _config: None
        self.sources: dict[str, str] = {}
        """Where the values that have changed since the start come from, by name."""

    @property
    def config(self) -> ConfigT:
        """The options in use."""
        return self._config

    def begin(self, started: ConfigT, apply: Callable[[ConfigT], None]) -> None:
        """Record that the process works with ``started`` from now on.

        ``apply`` gets the options now, because live ones may have changed before, and after each
        change.
        """
        with self._lock:
            live = {name: getattr(self._config, name) for name in live_options(type(started))}
            self._config = msgspec.structs.replace(started, **live)
            self._apply = apply
            apply(self._config)

    def check(self, given: Mapping[str, object]) -> ConfigT:
        """Return the options as ``change`` would make them.

        Raises:
            InvalidOptionError: one is unknown, wrong, or needs a restart.
        """
        live = live_options(type(self._config))
        before = msgspec.structs.asdict(self._config)
        now = convert(type(self._config), before | dict(given))
        for name in given:
            if name not in live:
                raise InvalidOptionError(name, "", "needs a restart")
        return now

    def change(self, given: Mapping[str, object]) -> dict[str, object]:
        """Change some options; return their values. All of them, or none. Raises as ``check``."""
        with self._lock:
            now = self.check(given)
            self._take(now, SET_WHILE_RUNNING, given.keys())
        return {name: getattr(now, name) for name in given}

    def reread(self, wanted: ConfigT) -> Changed:
        """Apply what of a configuration needs no restart; return the names of its changes."""
        with self._lock:
            live = live_options(type(wanted))
            names = [
                name
                for name in wanted.__struct_fields__
                if getattr(wanted, name) != getattr(self._config, name)
            ]
            applied = tuple(name for name in names if name in live)
            values = {name: getattr(wanted, name) for name in applied}
            if applied:
                now = msgspec.structs.replace(self._config, **values)
                self._take(now, REREAD, applied)
        return Changed(applied, tuple(name for name in names if name not in live))

    def _take(self, now: ConfigT, source: str, names: Iterable[str]) -> None:
        self._apply(now)
        self._config = now
        self.sources |= dict.fromkeys(names, source)
