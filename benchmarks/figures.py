"""Readers that turn the output of a round's commands into figures.

Each function returns the reader for a kind of case. A missing field is an error of the suite or of
the command, and ends the case (``KeyError``), not the suite.
"""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.case import Figures, Line, Round

EARLY: Final = (1 / 110, 10 / 110)
"""Shares of 11 million entries: from entry 100 thousand to 1 million."""

LATE: Final = (95 / 110, 105 / 110)
"""Shares of 11 million entries: half a million on either side of entry 10 million."""

Reader = Callable[[Round], Figures]


def answer(lines: Sequence[Line], measured: str | None = None) -> Line:
    """Return the fields of all lines except samples, merged; only of one kind if it is given.

    >>> answer([{"measured": "sample", "a": 1}, {"a": 2}, {"b": 3}])
    {'a': 2, 'b': 3}
    """
    merged: Line = {}
    for line in lines:
        kind = line.get("measured")
        if kind != "sample" and measured in {None, kind}:
            merged |= line
    return merged


def samples(lines: Sequence[Line]) -> list[Line]:
    """Return the samples among lines."""
    return [line for line in lines if line.get("measured") == "sample"]


def against_floor(field: str) -> Reader:
    """Return a reader of ``zbk bench write --against-floor``; ``field`` is the rate."""

    def read(lines: Round) -> Figures:
        zbk, floor = answer(lines["zbk"], "zbk"), answer(lines["zbk"], "floor")
        return {
            "zbk": zbk[field],
            "floor": floor[field],
            "ratio": zbk[field] / floor[field],
            "entries_per_s": zbk["entries_per_s"],
            "floor_entries_per_s": floor["entries_per_s"],
            "payload_mb_per_s": zbk["payload_mb_per_s"],
            "latency_p50_ms": zbk["latency_p50_ms"],
            "latency_p99_ms": zbk["latency_p99_ms"],
            "client_cpu_us_per_entry": zbk["client_cpu_us_per_entry"],
            "bookie_cpu_us_per_entry": zbk["bookie_cpu_us_per_entry"],
            "client_rss_size": zbk["client_rss_size"],
            "bookie_rss_size_max": zbk["bookie_rss_size_max"],
        }

    return read


def lone(lines: Round) -> Figures:
    """Read lone appends beside the bare loop and the fsync of the same bytes."""
    zbk, floor = answer(lines["zbk"]), answer(lines["floor"])
    percentiles = ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_p999_ms")
    return {name: zbk[name] for name in percentiles} | {
        "floor_p50_ms": floor["latency_p50_ms"],
        "floor_p99_ms": floor["latency_p99_ms"],
        "fsync_p50_ms": floor["fsync_entry_p50_ms"],
        "over_fsync_ms": zbk["latency_p50_ms"] - floor["fsync_entry_p50_ms"],
        "p50_ratio": zbk["latency_p50_ms"] / floor["latency_p50_ms"],
        "p99_ratio": zbk["latency_p99_ms"] / floor["latency_p99_ms"],
    }


def fields(*names: str) -> Reader:
    """Return a reader of fields of the step ``zbk``, unchanged."""
    return lambda lines: {name: answer(lines["zbk"])[name] for name in names}


def neighbors(*steps: str) -> Reader:
    """Return a reader of the latencies beside each load, and of the rate of the load."""

    def read(lines: Round) -> Figures:
        figures: Figures = {}
        for step in steps:
            found = answer(lines[step])
            for name in ("p50", "p95", "p99"):
                figures[f"{step}_{name}_ms"] = found[f"neighbor_latency_{name}_ms"]
            figures[f"{step}_entries_per_s"] = found["entries_per_s"]
        return figures

    return read


def shares(base: str, *others: str) -> Reader:
    """Return a reader of rates as shares of another step's rate in the same round."""

    def read(lines: Round) -> Figures:
        rates = {step: answer(lines[step])["entries_per_s"] for step in (base, *others)}
        return rates | {f"{step}_share": rates[step] / rates[base] for step in others}

    return read


def bypass(sizes: Sequence[int]) -> Reader:
    """Return a reader of bypass ledgers beside VD ledgers; steps have the names ``TYPE-SIZE``."""

    def read(lines: Round) -> Figures:
        figures: Figures = {}
        for size in sizes:
            for kind in ("vd", "vd-bypass"):
                found, name = answer(lines[f"{kind}-{size}"]), f"{kind}_{size}"
                payload_size = found["entry_count"] * size * found["write_quorum_size"]
                figures |= {
                    f"{name}_mb_per_s": found["payload_mb_per_s"],
                    f"{name}_bookie_cpu_us": found["bookie_cpu_us_per_entry"],
                    f"{name}_written_share": found["disk_write_size"] / payload_size,
                }
            rates = [figures[f"{kind}_{size}_mb_per_s"] for kind in ("vd", "vd-bypass")]
            figures[f"{size}_ratio"] = rates[1] / rates[0]
        return figures

    return read


def beside(lines: Round) -> Figures:
    """Read one writer alone, and beside others."""
    slow = answer(lines["slow"])
    return shares("alone", "eight", "idle", "slow")(lines) | {
        "backlog_size": slow["slow_bookie_backlog_size_max"],
    }


def length(lines: Round) -> Figures:
    """Read one long ledger: rates early and late."""
    result, seen = answer(lines["zbk"]), samples(lines["zbk"])
    count = result["entry_count"]
    early, late = (_rate(result, seen, low * count, high * count) for low, high in (EARLY, LATE))
    return {"early_entries_per_s": early, "late_entries_per_s": late, "late_share": late / early}


def memory(share: float) -> Reader:
    """Return a reader of the growth of memory after this share of the entries."""

    def read(lines: Round) -> Figures:
        result, seen = answer(lines["zbk"]), samples(lines["zbk"])
        then = _nearest([*seen, result], share * result["entry_count"])
        figures: Figures = {}
        for who in ("client_rss_size", "bookie_rss_size_max"):
            grown = result[who] - then[who]
            figures |= {who: result[who], f"{who}_grown": grown}
            figures[f"{who}_grown_share"] = grown / then[who]
        return figures

    return read


def offered_load(lines: Round) -> Figures:
    """Read steps of offered load: the rates reached, and the percentiles."""
    figures = {}
    for step in lines:
        result = answer(lines[step])
        for name in ("entries_per_s", "latency_p50_ms", "latency_p99_ms", "latency_p999_ms"):
            figures[f"{step}_{name}"] = result[name]
    return figures


def long_run(lines: Round) -> Figures:
    """Read a long run: the mean rate, and the ratio of its second half to its first."""
    result, seen = answer(lines["zbk"]), samples(lines["zbk"])
    count = result["entry_count"]
    halves = [_rate(result, seen, 0, count / 2), _rate(result, seen, count / 2, count)]
    return {
        "entries_per_s": result["entries_per_s"],
        "second_half_share": halves[1] / halves[0],
        "latency_p99_ms": result["latency_p99_ms"],
        "client_rss_size": result["client_rss_size"],
        "bookie_rss_size_max": result["bookie_rss_size_max"],
    }


def _rate(result: Line, seen: Sequence[Line], low: float, high: float) -> float:
    """Return the entries a second between two entries, interpolated between samples."""
    points = [(0.0, 0.0), *((one["at_s"], float(one["entry_count"])) for one in seen)]
    if result["entry_count"] > points[-1][1]:
        points.append((max(result["seconds"], points[-1][0]), float(result["entry_count"])))
    return (high - low) / max(1e-9, _time_of(points, high) - _time_of(points, low))


def _time_of(points: Sequence[tuple[float, float]], count: float) -> float:
    """Return the time at which ``count`` entries were written; ``points`` are in order."""
    at_s, before = points[0]
    for next_s, after in points[1:]:
        if after >= count and after > before:
            return at_s + (next_s - at_s) * (count - before) / (after - before)
        at_s, before = next_s, after
    return at_s


def _nearest(seen: Sequence[Line], count: float) -> Line:
    """Return the sample nearest to an entry."""
    return min(seen, key=lambda one: abs(one["entry_count"] - count))
