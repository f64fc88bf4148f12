"""The memory of each process over a run, as SVG: a line for each life."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.pictures import BLUE, GREEN, GREY, MIB, STYLE, VERMILION
from tests.soak.mixed.samples import Sample

LOOKS: Final = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (GREY, ":"))

Points = list[tuple[float, float]]  # minutes, MiB


def lives(samples: Sequence[Sample], name: str) -> list[Points]:
    """Return the memory of each life of a process, in order."""
    found: list[Points] = []
    pid = 0
    for one in samples:
        process = one.processes.get(name)
        if process is None:
            continue
        if process.pid != pid:
            pid = process.pid
            found.append([])
        found[-1].append((one.at_s / 60, process.rss_size / MIB))
    return found


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Write the picture of a run."""
    names = sorted({name for sample in samples for name in sample.processes})
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.subplots()
        for number, name in enumerate(names):
            colour, dash = LOOKS[number % len(LOOKS)]
            for count, points in enumerate(lives(samples, name)):
                minutes, sizes = zip(*points, strict=True)
                label = name if not count else None
                axes.plot(minutes, sizes, color=colour, linestyle=dash, label=label)
        axes.set_xlabel("minutes")
        axes.set_ylabel("RSS, MiB")
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower right")
        figure.savefig(path, format="svg", metadata={"Date": None})
