"""What a run is watched by: samples of memory, descriptors and disk use, and lines through them."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.soak.mixed.disk import DiskUse, disk_use
from tests.soak.mixed.shelf import Counts, Shelf
from zbk.cluster.local import LocalCluster
from zbk.system.process import usage

CLIENT: Final = "client"


class ProcessSample(msgspec.Struct, frozen=True):
    """One process at one moment."""

    pid: int
    rss_size: int
    fd_count: int


class Sample(msgspec.Struct, frozen=True):
    """One moment."""

    at_s: float  # since the start
    processes: dict[str, ProcessSample]  # "client", "bookie 0" ...; those that were there
    disk: DiskUse
    live_size: int  # of closed ledgers, all copies that were asked for
    counts: Counts
    violation_count: int


def take_sample(at_s: float, cluster: LocalCluster, shelf: Shelf) -> Sample:
    """Look at all processes and directories."""
    pids = {CLIENT: os.getpid()} | {
        f"bookie {bookie.index}": bookie.pid for bookie in cluster.bookies
    }
    found = {name: _process(pid) for name, pid in pids.items()}
    return Sample(
        at_s=round(at_s, 1),
        processes={name: one for name, one in found.items() if one is not None},
        disk=disk_use(cluster.folder),
        live_size=shelf.live_size,
        counts=msgspec.structs.replace(shelf.counts),
        violation_count=len(shelf.violations),
    )


def _process(pid: int) -> ProcessSample | None:
    try:
        fd_count = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None  # killed just now
    rss_size = usage(pid).rss_size
    return ProcessSample(pid, rss_size, fd_count) if rss_size else None


class Trend(msgspec.Struct, frozen=True):
    """The straight line through the samples of one process over the second half of a run."""

    sample_count: int
    seconds: float  # from the first of these samples to the last
    rss_mean_size: int
    rss_growth_size: int  # along the line, over these seconds
    fd_mean: float
    fd_growth: float


def trend(samples: Sequence[Sample], name: str) -> Trend | None:
    """Return how a process went; of one that was killed meanwhile its last life."""
    half = samples[len(samples) // 2 :]
    points = [(one.at_s, one.processes[name]) for one in half if name in one.processes]
    points = [(at_s, one) for at_s, one in points if one.pid == points[-1][1].pid]
    if len(points) < 3:
        return None
    times = [at_s for at_s, _ in points]
    seconds = times[-1] - times[0]
    rss = [one.rss_size for _, one in points]
    fds = [one.fd_count for _, one in points]
    return Trend(
        sample_count=len(points),
        seconds=seconds,
        rss_mean_size=round(statistics.fmean(rss)),
        rss_growth_size=round(statistics.linear_regression(times, rss).slope * seconds),
        fd_mean=round(statistics.fmean(fds), 1),
        fd_growth=round(statistics.linear_regression(times, fds).slope * seconds, 2),
    )
