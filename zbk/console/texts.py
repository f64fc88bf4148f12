"""How pages show values: sizes, times, durations. Pure."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

NONE: Final = "-"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def size_shown(size: float | None) -> str:
    """Return a size in bytes for people.

    >>> size_shown(1536), size_shown(None)
    ('1.5 KiB', '-')
    """
    if size is None:
        return NONE
    number = 0
    while size >= 1024 and number < len(_UNITS) - 1:
        size, number = size / 1024, number + 1
    return f"{size:,.0f} B" if number == 0 else f"{size:,.1f} {_UNITS[number]}"


def number_shown(value: float | None) -> str:
    """Return a number with separators.

    >>> number_shown(12_345), number_shown(0.25), number_shown(None)
    ('12,345', '0.2', '-')
    """
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.1f}"


def time_shown(wall_ms: int | None) -> str:
    """Return a wall clock time in UTC.

    >>> time_shown(0), time_shown(None)
    ('1970-01-01 00:00:00', '-')
    """
    if wall_ms is None:
        return NONE
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def seconds_shown(seconds: float | None) -> str:
    """Return a duration.

    >>> seconds_shown(0.5), seconds_shown(90), seconds_shown(7_300)
    ('0.5 s', '1 min 30 s', '2 h 1 min')
    """
    if seconds is None:
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def milliseconds_shown(value: float | None) -> str:
    """Return a latency in milliseconds.

    >>> milliseconds_shown(0.25), milliseconds_shown(None)
    ('0.25 ms', '-')
    """
    return NONE if value is None else f"{value:.3g} ms"


FILTERS: Final[dict[str, Callable[..., str]]] = {
    "size": size_shown,
    "number": number_shown,
    "time": time_shown,
    "seconds": seconds_shown,
    "ms": milliseconds_shown,
}
"""The filters of templates."""
