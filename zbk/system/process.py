"""Resources used by a process, from ``/proc``. Sizes are in bytes, times in milliseconds."""

import os

import msgspec

_TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


class ProcessUsage(msgspec.Struct, frozen=True):
    """Resources used by one process since its start."""

    cpu_ms: int
    rss_size: int
    disk_write_size: int  # bytes that it caused to be written to storage

    def since(self, earlier: "ProcessUsage") -> "ProcessUsage":
        """Return the use since ``earlier``; memory is the current value."""
        return ProcessUsage(
            self.cpu_ms - earlier.cpu_ms,
            self.rss_size,
            self.disk_write_size - earlier.disk_write_size,
        )


def usage(pid: int | None = None) -> ProcessUsage:
    """Return the use of a process, by default this one; zeros if it is not known."""
    base = f"/proc/{'self' if pid is None else pid}"
    try:
        with open(f"{base}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        with open(f"{base}/statm", encoding="ascii") as file:
            resident_pages = int(file.read().split()[1])
    except OSError:
        return ProcessUsage(0, 0, 0)
    cpu_ticks = int(fields[11]) + int(fields[12])  # utime and stime, fields 14 and 15 of stat
    return ProcessUsage(cpu_ticks * _TICK_MS, resident_pages * _PAGE_SIZE, _write_size(base))


def _write_size(base: str) -> int:
    try:
        with open(f"{base}/io", encoding="ascii") as file:
            for line in file:
                if line.startswith("write_bytes:"):
                    return int(line.split()[1])
    except OSError:
        return 0  # another user's process, or one that has just ended
    return 0
