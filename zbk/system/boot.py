"""The id of the current boot of the machine: the page cache does not outlive it."""

from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return a text that changes with each start of the machine; empty if it is not known."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""
