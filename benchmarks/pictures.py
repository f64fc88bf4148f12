"""The pictures of the report, as SVG: the cases that each needs, and the drawing.

White background, readable on a dark page, too. The colors are distinguishable for color-blind
readers (Okabe and Ito), and lines also differ in dash or marker. The same results give the same
bytes, so that a picture changes in the repository only with its figures.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.case import Line, rate_text, size_text
from benchmarks.figures import samples
from benchmarks.ledgers import COUNTS as LEDGER_COUNTS
from benchmarks.ledgers import PROCESS_COUNTS
from benchmarks.matrix import OFFERED, SIZES
from benchmarks.peer_results import PeerResults
from benchmarks.results import CaseResult

Results = Mapping[str, CaseResult]

BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
GREEN: Final = "#009E73"
GREY: Final = "#666666"
COLORS: Final = {"pd": BLUE, "vd": VERMILION}
PEER_COLORS: Final = (VERMILION, "#E69F00", "#CC79A7", GREEN, GREY)
PEER_MARKERS: Final = ("v", "^", "D", "s", "x")
MIB: Final = 1 << 20
BAR_WIDTH: Final = 0.38

SATURATED_SHARE: Final = 0.95
"""Below this share of the offered load the cluster is over its limit: queues grow without end."""

STYLE: Final[dict[Any, Any]] = {  # matplotlib has its own type for the keys
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.facecolor": "white",
    "figure.titlesize": 13,
    "font.size": 10,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "svg.hashsalt": "zbk",
}


class Picture(msgspec.Struct, frozen=True):
    """A picture of the report."""

    name: str  # of the file
    title: str
    caption: str
    needs: tuple[str, ...]  # cases
    draw: Callable[[Results], Figure]
    add_peers: Callable[[Figure, Sequence[PeerResults]], None] | None = None  # None: no peers

    def can_be_drawn(self, results: Results) -> bool:
        """Return whether all its cases were measured."""
        return all(name in results and not results[name].failure for name in self.needs)


def draw_all(results: Results, folder: Path, peers: Sequence[PeerResults] = ()) -> list[Path]:
    """Draw the pictures whose cases were measured; return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture in PICTURES:
        if not picture.can_be_drawn(results):
            continue
        path = folder / f"{picture.name}.svg"
        with mpl.rc_context(STYLE):
            figure = picture.draw(results)
            if picture.add_peers is not None:
                picture.add_peers(figure, peers)
            figure.suptitle(picture.title)
            figure.savefig(path, metadata={"Date": None})
        paths.append(path)
    return paths


def _by_size(results: Results) -> Figure:
    figure, (entries, payload) = _panels(1, 2)
    for kind, color in COLORS.items():
        cases = [results[f"many-{kind}-{size}"] for size in SIZES]
        rates = [case.median["entries_per_s"] for case in cases]
        floors = [case.median["floor_entries_per_s"] for case in cases]
        name = kind.upper()
        for axes, form in ((entries, list), (payload, _mb)):
            mark = "o" if kind == "pd" else "s"
            axes.plot(SIZES, form(rates), color=color, marker=mark, label=f"zbk, {name}")
            axes.plot(SIZES, form(floors), color=color, linestyle=":", label=f"floor, {name}")
    entries.set(yscale="log", ylabel="entries/s")
    entries.yaxis.set_major_formatter(_rates())
    payload.set(ylabel="payload, MB/s", ylim=(0, None))
    for axes in (entries, payload):
        axes.set(xscale="log", xlabel="payload of an entry, bytes")
        axes.set_xticks(SIZES, [size_text(size).removesuffix("B") for size in SIZES])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.minorticks_off()
    entries.legend()
    return figure


def _pd_against_vd(results: Results) -> Figure:
    figure, (rates, latency) = _panels(1, 2)
    groups = {
        "async\n100 B": "async-{}",
        "many\n100 B": "many-{}-100",
        "many\n1 KiB": "many-{}-1024",
        "many\n16 KiB": "many-{}-16384",
    }
    percentiles = {"p50": "p50", "p95": "p95", "p99": "p99", "p99.9": "p999"}
    for place, (kind, color) in zip((-0.5, 0.5), COLORS.items(), strict=True):
        hatch = "" if kind == "pd" else "//"
        cases = [results[name.format(kind)] for name in groups.values()]
        lone = results[f"lone-{kind}"].median
        for axes, values in (
            (rates, [case.median["payload_mb_per_s"] for case in cases]),
            (latency, [lone[f"latency_{short}_ms"] for short in percentiles.values()]),
        ):
            bars = axes.bar(
                [number + place * BAR_WIDTH for number in range(len(values))],
                values,
                BAR_WIDTH,
                color=color,
                edgecolor="white",
                hatch=hatch,
                label=kind.upper(),
            )
            texts = [f"{value:.0f}" if value >= 10 else f"{value:.2g}" for value in values]
            axes.bar_label(bars, texts, fontsize=9, padding=2)
    for axes, names in ((rates, groups), (latency, percentiles)):
        axes.set_xticks(range(len(names)), list(names), fontsize=9)
        axes.grid(visible=False, axis="x")
    rates.margins(y=0.1)
    rates.set(ylabel="payload, MB/s", title="append_async, append_many: throughput")
    latency.set(ylabel="ms", yscale="log", title="append, one after another, 100 B: latency")
    latency.yaxis.set_major_formatter(_plain())
    rates.legend(loc="upper left")
    return figure


def _latency(results: Results) -> Figure:
    figure, panels = _panels(1, 2, is_y_shared=True)
    lines = (
        ("p50", "p50", BLUE, "o"),
        ("p99", "p99", GREEN, "s"),
        ("p999", "p99.9", VERMILION, "^"),
    )
    for axes, kind in zip(panels, COLORS, strict=True):
        median = results[f"load-{kind}"].median
        over = [
            rate for rate in OFFERED if median[f"{rate}_entries_per_s"] < SATURATED_SHARE * rate
        ]
        for short, name, color, marker in lines:
            values = [median[f"{rate}_latency_{short}_ms"] for rate in OFFERED]
            axes.plot(OFFERED, values, color=color, marker=marker, label=name)
        if over:
            axes.axvspan(_before(over[0]), OFFERED[-1] * 1.3, color="#eeeeee", zorder=0)
            axes.text(
                (_before(over[0]) * OFFERED[-1] * 1.3) ** 0.5, 0.03, "more than it can do",
                fontsize=9, color=GREY, ha="center", rotation=90,
                transform=axes.get_xaxis_transform(),
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="offered, entries/s", title=kind.upper())
        axes.set_xticks(OFFERED, [rate_text(rate).replace(" ", "") for rate in OFFERED], fontsize=9)
        axes.set_xlim(OFFERED[0] * 0.8, OFFERED[-1] * 1.3)
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(_plain())
    panels[0].set_ylabel("latency from when it was due, ms")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _over_time(results: Results) -> Figure:
    figure, (rate, memory) = _panels(2, 1, is_x_shared=True)
    seen = _samples(results["long-run"])[0]
    minutes = [one["at_s"] / 60 for one in seen]
    rate.plot(minutes, [one["payload_mb_per_s"] for one in seen], color=BLUE, linewidth=1.0)
    rate.set(ylabel="payload, MB/s", ylim=(0, None))
    for field, name, color, dash in (
        ("client_rss_size", "client", GREEN, "-"),
        ("bookie_rss_size_max", "largest bookie", VERMILION, "--"),
    ):
        sizes = [one[field] / MIB for one in seen]
        memory.plot(minutes, sizes, color=color, linestyle=dash, label=name)
    memory.set(ylabel="memory (RSS), MiB", xlabel="minutes", ylim=(0, None))
    memory.legend(loc="lower right", ncols=2)
    return figure


def _by_length(results: Results) -> Figure:
    figure, (cost, rate) = _panels(1, 2)
    for number, seen in enumerate(_samples(results["length"])):
        millions = [one["entry_count"] / 1e6 for one in seen]
        for field, name, color, marker in (
            ("client_cpu_us_per_entry", "client", GREEN, "o"),
            ("bookie_cpu_us_per_entry", "the three bookies", VERMILION, "s"),
        ):
            cost.plot(
                millions, [one[field] for one in seen], color=color, linewidth=1.0,
                marker=marker, markersize=3.5, label=name if number == 0 else None,
            )  # fmt: skip
        rates = [one["entries_per_s"] for one in seen]
        rate.plot(millions, rates, color=BLUE, linewidth=1.0, marker="o", markersize=3.5)
    cost.set(ylabel="processor time an entry, µs", ylim=(0, None))
    rate.set(ylabel="entries/s", ylim=(0, None))
    rate.yaxis.set_major_formatter(_rates())
    for axes in (cost, rate):
        axes.set(xlabel="entries in the ledger, millions", xlim=(0, None))
    cost.legend(loc="lower right")
    return figure


def _by_ledgers(results: Results) -> Figure:
    return _by_count(results, "ledgers", LEDGER_COUNTS)


def _by_processes(results: Results) -> Figure:
    return _by_count(results, "processes", PROCESS_COUNTS)


def _by_count(results: Results, what: str, counts: tuple[int, ...]) -> Figure:
    """Draw throughput and latency of the cases ``what-<count>``."""
    figure, (rate, latency) = _panels(1, 2)
    medians = [results[f"{what}-{count}"].median for count in counts]
    rates = [median["entries_per_s"] for median in medians]
    rate.plot(counts, rates, color=BLUE, marker="o", label="zbk")
    for name, color, marker in (("p50", GREEN, "o"), ("p99", VERMILION, "s")):
        values = [median[f"latency_{name}_ms"] for median in medians]
        latency.plot(counts, values, color=color, marker=marker, label=name)
    rate.set(ylabel="entries/s", ylim=(0, None))
    rate.yaxis.set_major_formatter(_rates())
    latency.set(yscale="log", ylabel="latency, ms")
    latency.yaxis.set_major_formatter(_plain())
    for axes in (rate, latency):
        axes.set(xscale="log", xlabel=what)
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.minorticks_off()
    latency.legend(loc="upper left")
    return figure


def _add_peers_by_ledgers(figure: Figure, peers: Sequence[PeerResults]) -> None:
    many = [one for one in peers if one.shape.api == "async" and one.shape.ledger_count > 1]
    _add_rates(figure.axes[0], [(one, one.shape.ledger_count) for one in many])


def _add_peers_by_processes(figure: Figure, peers: Sequence[PeerResults]) -> None:
    lone = [one for one in peers if one.shape.api == "sync" and one.shape.ledger_count == 1]
    _add_rates(figure.axes[0], [(one, one.shape.process_count) for one in lone])


def _add_rates(axes: Axes, points: Sequence[tuple[PeerResults, int]]) -> None:
    """Draw one line per peer, through its rates at these counts."""
    names = sorted({one.name for one, _ in points})
    for number, name in enumerate(names):
        its = sorted(
            (count, one.median["entries_per_s"]) for one, count in points if one.name == name
        )
        axes.plot(
            [count for count, _ in its],
            [rate for _, rate in its],
            color=PEER_COLORS[number % len(PEER_COLORS)],
            linestyle="--",
            linewidth=1.2,
            marker=PEER_MARKERS[number % len(PEER_MARKERS)],
            label=name,
        )
    if names:
        axes.autoscale(axis="y")  # the limits were those of zbk
        axes.set_ylim(0, None)
        axes.legend(fontsize=8)


def _panels(
    rows: int, columns: int, *, is_x_shared: bool = False, is_y_shared: bool = False
) -> tuple[Figure, tuple[Axes, Axes]]:
    """Return a figure with two panels."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=is_x_shared, sharey=is_y_shared)
    return figure, (axes[0], axes[1])


def _rates() -> FuncFormatter:
    return FuncFormatter(lambda value, _: rate_text(value) if value else "0")


def _plain() -> FuncFormatter:
    return FuncFormatter(lambda value, _: f"{value:g}")


def _mb(rates: list[float]) -> list[float]:
    return [rate * size / 1e6 for rate, size in zip(rates, SIZES, strict=True)]


def _samples(result: CaseResult) -> list[list[Line]]:
    """Return the samples of each round."""
    return [samples(lines["zbk"]) for lines in result.rounds]


def _before(rate: int) -> float:
    """Return the logarithmic middle between an offered rate and the one before."""
    index = OFFERED.index(rate)
    return float(OFFERED[index - 1] * rate) ** 0.5 if index else rate * 0.8


PICTURES: Final = (
    Picture(
        "by-size",
        "Throughput by entry size",
        "`append_many`, 3/3/2, one client. Dotted: the floor, which ran in turn with the same "
        "batches and only moves and writes bytes.",
        tuple(f"many-{kind}-{size}" for kind in COLORS for size in SIZES),
        _by_size,
    ),
    Picture(
        "pd-against-vd",
        "PD against VD",
        "The cost of waiting for fsync: in throughput, where many entries share one, and for a "
        "lone append, which waits for its own.",
        tuple(
            f"{name}-{kind}{size}"
            for kind in COLORS
            for name, size in (
                ("async", ""),
                ("lone", ""),
                ("many", "-100"),
                ("many", "-1024"),
                ("many", "-16384"),
            )
        ),
        _pd_against_vd,
    ),
    Picture(
        "latency",
        "Latency against offered load, 100 B",
        "Entries are due at times fixed in advance, independent of earlier answers, and latency "
        "counts from then: a stall delays all entries due meanwhile.",
        ("load-pd", "load-vd"),
        _latency,
    ),
    Picture(
        "by-ledgers",
        "Many ledgers in one client, PD, 100 B",
        "One append is unanswered in each ledger; the answer appends the next one. Dashed: peers.",
        tuple(f"ledgers-{count}" for count in LEDGER_COUNTS),
        _by_ledgers,
        _add_peers_by_ledgers,
    ),
    Picture(
        "by-processes",
        "Many client processes, PD, 100 B",
        "Each process has its own ledger and one synchronous append at a time. Dashed: peers.",
        tuple(f"processes-{count}" for count in PROCESS_COUNTS),
        _by_processes,
        _add_peers_by_processes,
    ),
    Picture(
        "over-time",
        "Throughput and memory over time, PD, 1 KiB",
        "One sample a second. The writer regularly continues in a new ledger and deletes the old "
        "one, so the bookies collect garbage all the time.",
        ("long-run",),
        _over_time,
    ),
    Picture(
        "by-length",
        "Cost against the length of a ledger, PD, 100 B",
        "One sample a second, every round. The goal is a flat line: cost grows with bytes only.",
        ("length",),
        _by_length,
    ),
)
