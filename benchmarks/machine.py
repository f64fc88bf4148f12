"""The machine of a result, for comparisons. From Linux."""

import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).resolve().parent.parent
GIT_TIMEOUT_S: Final = 10


class Machine(msgspec.Struct, frozen=True):
    """The machine and the time of a measurement."""

    cpu_model: str
    core_count: int
    memory_size: int  # bytes
    kernel: str
    python: str
    file_system: str  # of the temporary folders of clusters
    git_commit: str
    load_average: float  # of the minute before


def this_machine() -> Machine:
    """Return this machine in its current state."""
    return Machine(
        cpu_model=cpu_model(Path("/proc/cpuinfo").read_text("utf-8")),
        core_count=os.cpu_count() or 1,
        memory_size=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        python=platform.python_version(),
        file_system=file_system(Path("/proc/mounts").read_text("utf-8"), tempfile.gettempdir()),
        git_commit=_git_commit(),
        load_average=round(os.getloadavg()[0], 2),
    )


def cpu_model(cpuinfo: str) -> str:
    r"""Return the model in the text of ``/proc/cpuinfo``, or the architecture.

    >>> cpu_model("processor : 0\nmodel name\t: Fast One\n")
    'Fast One'
    """
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def file_system(mounts: str, folder: str) -> str:
    r"""Return the type of the file system that a folder is on.

    >>> file_system("a / ext4 rw\nb /tmp tmpfs rw\n", "/tmp/x")
    'tmpfs'
    """
    types = {
        fields[1]: fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2
    }
    path = Path(folder)
    for place in (path, *path.parents):
        if str(place) in types:
            return types[str(place)]
    return "unknown"


def _git_commit() -> str:
    """Return the commit, with ``+`` if zbk differs from it; empty outside of a repository."""
    try:
        commit = _git("rev-parse", "--short", "HEAD").stdout.strip()
        is_changed = _git("diff", "--quiet", "HEAD", "--", "zbk").returncode != 0
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{commit}+" if commit and is_changed else commit


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "--no-optional-locks", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=GIT_TIMEOUT_S
    )
