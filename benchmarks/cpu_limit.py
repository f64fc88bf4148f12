"""A limit on the processor time of processes: a control group of Linux for each. Needs root.

Processes of one machine share its cores. With a limit, each has a fixed part, as if it had a small
machine of its own.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from zbk.errors import InvalidOptionError

GROUPS: Final = Path("/sys/fs/cgroup")
PERIOD_US: Final = 10_000
"""A process that has used its part of a period stands still until the next. A longer one is needed
if the part would be below ``QUOTA_MIN_US``."""
QUOTA_MIN_US: Final = 1_000
"""Linux refuses less."""


@contextmanager
def limited_cpu(
    pids: Sequence[int], percent: float, option: str = "percent", groups: Path = GROUPS
) -> Iterator[None]:
    """Give each process at most so much of one core, until the end of the block.

    Raises:
        InvalidOptionError: ``option`` cannot be kept: no control groups that this user may write.
    """
    with ExitStack() as exit_stack:
        for number, pid in enumerate(pids):
            try:
                _limit(exit_stack, groups, f"zbk-{os.getpid()}-{number}", pid, percent)
            except OSError as error:
                reason = f"needs root, and control groups with the cpu controller: {error}"
                raise InvalidOptionError(option, percent, reason) from error
        yield


def settings_of(groups: Path, percent: float) -> tuple[Path, dict[str, str]]:
    """Return where groups are made, and what their files are set to: control groups 1 or 2."""
    quota_us = max(QUOTA_MIN_US, int(PERIOD_US * percent / 100))
    period_us = int(quota_us * 100 / percent)
    if (groups / "cgroup.controllers").exists():
        return groups, {"cpu.max": f"{quota_us} {period_us}"}
    files = {"cpu.cfs_period_us": str(period_us), "cpu.cfs_quota_us": str(quota_us)}
    return groups / "cpu", files


def _limit(exit_stack: ExitStack, groups: Path, name: str, pid: int, percent: float) -> None:
    parent, settings = settings_of(groups, percent)
    control = parent / "cgroup.subtree_control"
    if control.exists():
        control.write_text("+cpu")
    group = parent / name
    group.mkdir()
    exit_stack.callback(group.rmdir)
    for file, content in settings.items():
        (group / file).write_text(content)
    (group / "cgroup.procs").write_text(str(pid))
    exit_stack.callback(_release, parent, pid)


def _release(parent: Path, pid: int) -> None:
    try:
        (parent / "cgroup.procs").write_text(str(pid))
    except ProcessLookupError:
        return  # it has ended, and left its group
