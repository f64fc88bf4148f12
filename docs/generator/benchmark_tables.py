"""The tables of benchmarks, made from the saved results (``benchmarks/results``)."""

from typing import Final

from benchmarks.case import PeerShape, rate_text, size_text, value_text
from benchmarks.matrix import cases
from benchmarks.peer_results import PeerResults, load_peers
from benchmarks.results import load
from docs.generator.copies import ROOT
from docs.generator.text import table

FOLDER: Final = ROOT / "benchmarks" / "results"
CHOSEN: Final = (
    "many-pd-100", "many-pd-1024", "many-pd-16384", "many-vd-100", "lone-pd", "lone-vd",
    "ledgers-1000", "processes-16", "read-100-warm", "read-batches-100-warm", "tail", "recovery",
    "restart",
)  # fmt: skip
"""Cases whose first row is on the page; the report has all."""

SAME_RUN: Final = "zbk in the same run"
"""The name of zbk among the results of peers."""


def measured() -> str:
    """Return a table of figures of zbk, each beside its floor."""
    results = load(FOLDER, cases())
    rows = []
    for case in cases():
        if case.name in CHOSEN and case.name in results:
            row, median = case.rows[0], results[case.name].median
            floor = value_text(median[row.floor], row.unit) if row.floor in median else ""
            ratio = f"{median[row.ratio]:.0%}" if row.ratio in median else ""
            rows.append((row.title, value_text(median[row.zbk], row.unit), floor, ratio))
    return table(["what", "zbk", "floor or reference", "ratio"], rows)


def peers() -> str:
    """Return a table of the loads that peers had, too; empty without results of peers."""
    found: dict[PeerShape, dict[str, PeerResults]] = {}
    for peer in load_peers(FOLDER):
        found.setdefault(peer.shape, {})[peer.name] = peer
    names = sorted({name for of in found.values() for name in of} - {SAME_RUN})
    own: dict[PeerShape, str] = {}  # the first case of a shape is a PD ledger's
    for case in cases():
        for row in case.rows:
            if row.peer_shape is not None:
                own.setdefault(row.peer_shape, case.name)
    results = load(FOLDER, cases())
    rows = []
    for shape in sorted(found, key=_order):
        name = own.get(shape)
        if SAME_RUN in found[shape]:
            zbk = _figure(shape, found[shape][SAME_RUN].median)
        elif name in results:
            zbk = _figure(shape, results[name].median)
        else:
            continue
        others = [found[shape].get(one) for one in names]
        cells = [_figure(shape, one.median) + one.note if one else "" for one in others]
        rows.append((_load_text(shape), zbk, *cells))
    return table(["load", "zbk", *names], rows) if rows else ""


def _order(shape: PeerShape) -> tuple[int, int, int, int]:
    kind = ("many", "sync", "async").index(shape.api)
    return kind, shape.process_count, shape.ledger_count, shape.entry_size


def _is_lone(shape: PeerShape) -> bool:
    return shape.api == "sync" and shape.ledger_count == shape.process_count == 1


def _figure(shape: PeerShape, median: dict[str, float]) -> str:
    """Return the latency of a lone append, else the rate."""
    if _is_lone(shape):
        return f"{median['latency_p50_ms']:.2f} ms"
    return f"{rate_text(median['entries_per_s'])}/s" if "entries_per_s" in median else ""


def _load_text(shape: PeerShape) -> str:
    size = size_text(shape.entry_size)
    if shape.api == "many":
        return f"`append_many`, {size}"
    if _is_lone(shape):
        return f"a lone `append`, {size}, p50"
    streams = max(shape.ledger_count, shape.process_count)
    who = "processes" if shape.process_count > 1 else "streams"
    if shape.api == "sync":
        return f"one `append` after another in each of {streams:,} {who}, {size}"
    if streams == 1:
        return f"`append_async`, {size}"
    return f"one unanswered `append_async` in each of {streams:,} {who}, {size}"
