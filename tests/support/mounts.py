"""File systems that tests mount (root only). They go when the process ends, however it ends."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

PROGRAMS: Final = ("mount", "umount")

# A line ends it. The end of its input is the end of this process: then it unmounts.
_GUARD: Final = 'read -r _ || umount -l "$1"'


class Mount:
    """A file system at ``folder``, mounted with these arguments of ``mount``.

    Raises:
        subprocess.CalledProcessError: it cannot be mounted here.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = str(folder)
        # first, so that there is no moment without it, and in a session of its own: Ctrl-C in a
        # terminal does not reach it
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            run("mount", *arguments, self._folder)
        except BaseException:
            self._dismiss()
            raise

    def unmount(self, *, is_lazy: bool = False) -> None:
        """Take it down; with ``is_lazy`` also while files are open there."""
        run("umount", *(["-l"] if is_lazy else []), self._folder)
        self._dismiss()

    def _dismiss(self) -> None:
        self._guard.communicate(b"\n")


def missing_program(*others: str) -> str:
    """Return a program that mounting needs, or one of ``others``, and that is not here; or ""."""
    return next((name for name in (*PROGRAMS, *others) if shutil.which(name) is None), "")


def run(*command: str) -> None:
    """Run a program to its end.

    Raises:
        subprocess.CalledProcessError: it failed; with its words.
    """
    subprocess.run(command, check=True, capture_output=True, text=True)
