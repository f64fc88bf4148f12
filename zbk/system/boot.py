"""Which boot of the machine this is: what the page cache holds lives no longer than that."""

from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return a text that is another one after each start of the machine; empty: not known here."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""
