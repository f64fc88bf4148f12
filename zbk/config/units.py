"""Units of option values: sizes, durations, shares of a disk, and the unit of each option.

The ending of an option's name says its unit. Sizes may be written ``"64 MiB"`` and durations
``"2s"`` or ``"500ms"``; plain numbers are bytes and milliseconds.

>>> parse_size("64 MiB"), parse_duration_ms("1.5s"), unit_of("open_files_max")
(67108864, 1500, 'COUNT')
"""

import re
from typing import Final

import msgspec

from zbk.errors import InvalidOptionError

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

_ENDINGS: Final = (
    (("_ms", "_ms_max"), "DURATION"),
    (("_size", "_size_max", "memory_max"), "SIZE"),
    (("_free",), "SIZE|PERCENT"),
    (("_dir",), "DIR"),
    (("_threshold",), "SHARE"),
    (("_percent",), "PERCENT"),
    (("_count", "_max"), "COUNT"),
)
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(|B|KiB|MiB|GiB|KB|MB|GB)\s*")
_SIZE_UNITS = {
    "": 1, "B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB,
    "KB": 1000, "MB": 1000**2, "GB": 1000**3,
}  # fmt: skip
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_SIZE_MAX: Final = 2**63 - 1
_PERCENT_MAX = 99
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d|)\s*")
_DURATION_UNITS_MS = {
    "": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": HOUR_MS, "d": DAY_MS,
}  # fmt: skip


def unit_of(name: str) -> str:
    """Return the unit of an option, as help shows it; "" if the name has none."""
    return next((unit for endings, unit in _ENDINGS if name.endswith(endings)), "")


class FreeLimit(msgspec.Struct, frozen=True):
    """The space of a disk that stays free: bytes, or a share of the disk."""

    size: int = 0
    percent: float = 0

    def of(self, total_size: int) -> int:
        """Return this limit in bytes for a disk of ``total_size`` bytes."""
        return max(self.size, int(total_size * self.percent / 100))


def parse_size(text: str, name: str = "size") -> int:
    """Parse a size in bytes: ``"512"``, ``"64 KiB"``, ``"1.5 MB"``.

    Raises:
        InvalidOptionError: the text is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidOptionError(name, text, 'give bytes, or a size such as "64 MiB"')
    return int(float(match[1]) * _SIZE_UNITS[match[2]])


def parse_free(value: int | str, name: str = "free") -> FreeLimit:
    """Parse a limit of free space: ``"5%"``, ``"2 GiB"``, or a number of bytes.

    Raises:
        InvalidOptionError: the value is neither, a share of over 99 %, or over 2**63 - 1 bytes.
    """
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
        if float(match[1]) > _PERCENT_MAX:
            raise InvalidOptionError(name, value, f"must be {_PERCENT_MAX}% or less")
        return FreeLimit(percent=float(match[1]))
    size = parse_size(value, name) if isinstance(value, str) else value
    if not 0 <= size <= _SIZE_MAX:
        raise InvalidOptionError(name, value, f"must be from 0 to {_SIZE_MAX}")
    return FreeLimit(size=size)


def parse_duration_ms(text: str, name: str = "duration") -> int:
    """Parse a duration in milliseconds: ``"250"``, ``"250ms"``, ``"2s"``, ``"1min"``, ``"7d"``.

    Raises:
        InvalidOptionError: the text is not a duration.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidOptionError(name, text, 'give milliseconds, or a duration such as "2s"')
    return int(float(match[1]) * _DURATION_UNITS_MS[match[2]])
