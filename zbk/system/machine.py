"""Settings of this machine that change how a bookie performs, as Linux reports them.

Each function returns an empty or neutral value where the kernel does not tell.
"""

import ctypes
import os
import re
import resource
from typing import Final

_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
_CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_TIMEX_SIZE: Final = 256  # larger than any kernel's struct
_TIME_ERROR: Final = 5  # from adjtimex: the clock is not synchronized


def descriptor_limits() -> tuple[int | None, int | None]:
    """Return the soft and the hard limit of file descriptors; ``None`` is no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _limit(soft), _limit(hard)


def huge_pages() -> str:
    """Return the mode of transparent huge pages: always, madvise or never."""
    found = re.search(r"\[(\w+)\]", _text(_HUGE_PAGES))
    return found[1] if found else ""


def clock_source() -> str:
    """Return the kernel's clock source, such as tsc."""
    return _text(_CLOCK_SOURCE).strip()


def is_clock_synchronized() -> bool | None:
    """Return whether the kernel's clock follows a time server; ``None`` where it is not known."""
    try:
        found = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_SIZE))
    except (AttributeError, OSError):
        return None
    return None if found < 0 else found != _TIME_ERROR


def used_swap_size() -> int:
    """Return the bytes of swap space in use."""
    rows = [line.split() for line in _text("/proc/swaps").splitlines()[1:]]
    return sum(int(row[3]) * 1024 for row in rows if len(row) > 3)


def file_system(path: str) -> str:
    """Return the kind of the file system that a path is on, such as ext4, tmpfs or nfs4."""
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in _text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        mount = _unescaped(left.split()[4])
        is_above = real == mount or real.startswith(mount.rstrip("/") + "/")
        if is_above and len(mount) >= len(best):
            best, kind = mount, right.split()[0]
    return kind


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _unescaped(text: str) -> str:
    r"""Return a mount point as it is.

    >>> _unescaped(r"/a\040b")
    '/a b'
    """
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), text)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
