"""Power loss for real: a bookie's directories on a file system that can be cut off at once.

Each bookie has an ext4 in a file, mounted through a loop device. Losing power is ext4's shutdown
call without a flush of its log (``EXT4_IOC_SHUTDOWN``): from then on nothing reaches the file, so
that unsynced data, sizes and renames are lost, and the bookie's calls fail. Then the process is
killed, and the file system is unmounted and mounted again, which replays its journal as a real
start of the machine would. Needs root and loop devices.

The lying write cache of a disk is not in this: the file below the loop device keeps what ext4 sent.
"""

import fcntl
import os
import struct
import subprocess
from pathlib import Path

from tests.support.mounts import Mount, missing_program, run

DISK_SIZE = 1536 * 1024 * 1024  # sparse; a bookie preallocates two journal segments
_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
_NO_LOG_FLUSH = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH


class PowerDisk:
    """The disk of one bookie, mounted at ``folder``."""

    def __init__(self, image: Path, folder: Path) -> None:
        self._image = image
        self.folder = folder
        self.boot_count = 0  # of the machine that the disk stands for
        folder.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(DISK_SIZE)
        run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", str(image))
        self._mount = self._mounted()

    def lose_power(self) -> None:
        """Stop all writing at this very moment. The mount stays, and fails."""
        directory = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(directory)

    def power_on(self) -> None:
        """Mount again what reached the disk. Nobody may have a file open there."""
        self.boot_count += 1
        self.unmount()
        self._mount = self._mounted()

    def unmount(self) -> None:
        """Take it down."""
        self._mount.unmount()

    def _mounted(self) -> Mount:
        return Mount(self.folder, "-t", "ext4", "-o", "loop", str(self._image))


def why_not(folder: Path) -> str:
    """Return why this machine cannot do it; empty if it can. Tries it once in ``folder``."""
    if os.geteuid() != 0:
        return "needs root"
    missing = missing_program("mkfs.ext4")
    if missing:
        return f"needs the program {missing}"
    image, place = folder / "probe.ext4", folder / "probe"
    try:
        disk = PowerDisk(image, place)
    except subprocess.CalledProcessError as error:
        return f"no loop device to mount: {error.stderr.strip()}"
    try:
        (place / "lost").write_bytes(b"never synced")
        disk.lose_power()
        disk.power_on()
        is_lost = not (place / "lost").exists() or not (place / "lost").read_bytes()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"ext4 has no shutdown call here: {error}"
    finally:
        disk.unmount()
        image.unlink()
        place.rmdir()
    return "" if is_lost else "the shutdown call lost nothing"
