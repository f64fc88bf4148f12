"""The figures of pages, as SVG. Pure: the same data give the same text.

Colors are classes of the style sheet, so that a figure follows light and dark mode. Each figure has
a text for screen readers.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any, Final

from markupsafe import Markup

from zbk.console.svg import LABEL_WIDTH, ROW_COUNT_MAX, ROW_HEIGHT, WIDTH, short, svg
from zbk.console.texts import NONE, milliseconds_shown, time_shown

LARGE_CELL_COUNT_MAX: Final = 24
BAD_KINDS: Final = (
    "lost", "silent", "read-only", "repair began", "counts as lost", "no auditor", "auditor waits",
    "fenced", "store silent",
)  # fmt: skip
"""Kinds of events that the timeline draws in the color of problems."""


def spark(values: Sequence[float], width: int = 96, height: int = 20) -> Markup:
    """Return a line through values, from 0 to their largest."""
    top = max(values, default=0.0) or 1.0
    body = f'<polyline class="line" points="{_points(values, width, height)}"/>'
    return svg(width, height, f"trend, highest {top:,.0f}", body, "spark")


def bar(share: float, text: str) -> Markup:
    """Return a horizontal bar that is filled to a share.

    >>> 'width="50.0"' in bar(0.5, "half")
    True
    """
    filled = 100 * min(1.0, max(0.0, share))
    body = (
        '<rect class="track" width="100" height="8" rx="2"/>'
        f'<rect class="fill" width="{filled:.1f}" height="8" rx="2"/>'
    )
    return svg(100, 8, text, body, "bar")


def fleet(bookies: Sequence[Any]) -> Markup:
    """Return a cell for each bookie: state, disk, wait for the journal, fsyncs.

    A bookie has ``bookie_id``, ``state``, ``disk_share``, ``queue_ms``, ``fsync_ms`` and
    ``fsync_trend``. Beyond ``LARGE_CELL_COUNT_MAX`` cells are small, with state and disk only.
    """
    is_small = len(bookies) > LARGE_CELL_COUNT_MAX
    column_count, height = (6, 26) if is_small else (4, 66)
    width = WIDTH / column_count
    top_ms = max((one["queue_ms"] or 0 for one in bookies), default=0) or 1
    parts = []
    for number, one in enumerate(bookies):
        row, column = divmod(number, column_count)
        disk, state = one["disk_share"], one["state"]
        shown = NONE if disk is None else f"{disk:.0%}"
        title = f"{one['bookie_id']}: {state}, disk {shown}"
        name = short(one["bookie_id"], min(20, width // 8))
        cell = [
            f"<title>{escape(title)}</title>",
            f'<rect class="cell" width="{width - 6:g}" height="{height - 6}" rx="3"/>',
            f'<rect class="edge {escape(state)}" width="4" height="{height - 6}"/>',
            f'<text class="label" x="10" y="14">{escape(name)}</text>',
        ]
        if is_small:
            cell.append(_gauge(10, 16, width - 22, disk))
        else:
            cell.append(f'<text class="tick" x="10" y="29">disk {shown}</text>')
            cell.append(_gauge(104, 23, width - 116, disk))
            share = None if one["queue_ms"] is None else one["queue_ms"] / top_ms
            wait, fsync = milliseconds_shown(one["queue_ms"]), milliseconds_shown(one["fsync_ms"])
            cell.append(f'<text class="tick" x="10" y="42">queue {wait}</text>')
            cell.append(_gauge(104, 36, width - 116, share, limit=2.0))  # none is too long
            cell.append(f'<text class="tick" x="10" y="55">fsync {fsync}</text>')
            line = _points(one["fsync_trend"], width - 116, 10)
            cell.append(f'<polyline class="line" transform="translate(104 46)" points="{line}"/>')
        place = f"translate({column * width:g} {row * height})"
        parts.append(f'<g transform="{place}">{"".join(cell)}</g>')
    states = Counter(one["state"] for one in bookies)
    text = ", ".join(f"{count} {state}" for state, count in states.items())
    row_count = -(-len(bookies) // column_count)
    figure = f"bookies: {text or 'none'}"
    return svg(WIDTH, max(1, row_count) * height, figure, "".join(parts), "wide")


def gap(rows: Sequence[Any]) -> Markup:
    """Return the durability gap: for each bookie its synced, confirmed and stored entries.

    A row has ``bookie_id``, ``last_add_synced``, ``lac`` and ``last_entry_id``, which are ``None``
    where the bookie gave no answer: such rows are left out.
    """
    known = [one for one in rows if one["last_entry_id"] is not None][:ROW_COUNT_MAX]
    top = max((max(one["last_entry_id"], one["lac"]) for one in known), default=0) + 1
    room = WIDTH - LABEL_WIDTH - 90
    parts = []
    for number, one in enumerate(known):
        y = number * ROW_HEIGHT
        synced = room * max(0, one["last_add_synced"] + 1) / top
        stored = room * max(0, one["last_entry_id"] + 1) / top
        lac = LABEL_WIDTH + room * max(0, one["lac"] + 1) / top
        parts.append(
            f'<text class="label" x="0" y="{y + 15}">{escape(short(one["bookie_id"]))}</text>'
            f'<rect class="atrisk" x="{LABEL_WIDTH}" y="{y + 4}" width="{stored:.1f}" height="14"/>'
            f'<rect class="block" x="{LABEL_WIDTH}" y="{y + 4}" width="{synced:.1f}" height="14"/>'
            f'<line class="mark" x1="{lac:.1f}" x2="{lac:.1f}" y1="{y + 1}" y2="{y + 21}"/>'
            f'<text class="tick" x="{LABEL_WIDTH + room + 6}" y="{y + 15}">'
            f"{max(0, one['last_entry_id'] - one['last_add_synced']):,} at risk</text>"
        )
    text = f"entries that {len(known)} bookies hold, and how many of them are synced"
    return svg(WIDTH, max(1, len(known)) * ROW_HEIGHT, text, "".join(parts), "wide")


def gap_lines(gaps: Sequence[Any], height: int = 140) -> Markup:
    """Return the gap of one ledger over time: synced, confirmed and stored entries as lines.

    A gap has ``at_ms``, ``synced``, ``confirmed``, ``stored``, and ``synced_by`` with a line for
    each bookie. The area between synced and stored is what a loss of power takes. A tick is a sync.
    """
    if not gaps:
        return svg(WIDTH, 2, "no gap is known", "", "wide")
    lows = [until for one in gaps for until in (one["synced"], *one["synced_by"].values())]
    low, top = min(lows), max(one["stored"] for one in gaps)
    start_ms, time_ms = gaps[0]["at_ms"], max(1, gaps[-1]["at_ms"] - gaps[0]["at_ms"])

    def point(one: Any, entry_id: int) -> str:  # noqa: ANN401 - as the twin has it
        x = 70 + (WIDTH - 70) * (one["at_ms"] - start_ms) / time_ms
        return f"{x:.1f},{height - 4 - (height - 12) * (entry_id - low) / max(1, top - low):.1f}"

    def line(kind: str, points: Sequence[str], title: str = "") -> str:
        text = f"<title>{escape(title)}</title>" if title else ""
        return f'<polyline class="{kind}" points="{" ".join(points)}">{text}</polyline>'

    synced, confirmed, stored = (
        [point(one, one[name]) for one in gaps] for name in ("synced", "confirmed", "stored")
    )
    parts = [f'<polygon class="atrisk" points="{" ".join([*stored, *reversed(synced)])}"/>']
    for bookie_id in sorted({name for one in gaps for name in one["synced_by"]}):
        held = [one for one in gaps if bookie_id in one["synced_by"]]
        points = [point(one, one["synced_by"][bookie_id]) for one in held]
        parts.append(line("bookie-synced", points, f"synced at {bookie_id}"))
    parts += [line("line", stored), line("confirmed", confirmed), line("synced", synced)]
    for before, after in pairwise(gaps):
        if after["synced"] > before["synced"]:
            x = point(after, low).partition(",")[0]
            parts.append(
                f'<line class="sync" x1="{x}" x2="{x}" y1="{height - 10}" y2="{height}">'
                f"<title>synced up to entry {after['synced']:,}</title></line>"
            )
    parts.append(f'<text class="tick" x="0" y="14">{top:,}</text>')
    parts.append(f'<text class="tick" x="0" y="{height - 4}">{low:,}</text>')
    risk = gaps[-1]["stored"] - gaps[-1]["synced"]
    return svg(WIDTH, height, f"entries at risk over time, now {risk:,}", "".join(parts), "wide")


def area(values: Sequence[float], text: str, height: int = 120) -> Markup:
    """Return an area under values over time, from 0 to their largest."""
    top = max(values, default=0.0) or 1.0
    step = (WIDTH - 40) / max(1, len(values) - 1)
    points = [
        f"{40 + number * step:.1f},{height - 4 - (height - 14) * value / top:.1f}"
        for number, value in enumerate(values)
    ]
    line = " ".join(points)
    closed = f"40,{height - 4} {line} {WIDTH},{height - 4}" if points else ""
    body = (
        f'<polygon class="area" points="{closed}"/><polyline class="line" points="{line}"/>'
        f'<text class="tick" x="0" y="14">{top:,.0f}</text>'
        f'<text class="tick" x="0" y="{height - 4}">0</text>'
    )
    return svg(WIDTH, height, text, body, "wide")


def heat_map(columns: Sequence[Sequence[int]], labels: Sequence[str], text: str) -> Markup:
    """Return latencies over time: a column for each time, a row for each bucket, slow on top."""
    used = [n for n in range(len(labels)) if any(n < len(c) and c[n] for c in columns)]
    if not used:
        return svg(WIDTH, 2, f"no {text}", "", "wide")
    first, last = used[0], used[-1]
    top = max((count for one in columns for count in one), default=0) or 1
    width = (WIDTH - 70) / max(24, len(columns))
    parts = []
    for row, bucket in enumerate(range(last, first - 1, -1)):
        parts.append(
            f'<text class="tick" x="0" y="{row * 12 + 10}">{escape(labels[bucket])}</text>'
        )
        for number, counts in enumerate(columns):
            if bucket < len(counts) and counts[bucket]:
                opacity = 0.15 + 0.85 * (counts[bucket] / top) ** 0.5
                parts.append(
                    f'<rect class="heat" x="{70 + number * width:.1f}" y="{row * 12}" '
                    f'width="{width:.2f}" height="11" fill-opacity="{opacity:.2f}">'
                    f"<title>{counts[bucket]:,} up to {escape(labels[bucket])}</title></rect>"
                )
    return svg(WIDTH, (last - first + 1) * 12 + 2, text, "".join(parts), "wide")


def timeline(events: Sequence[Any], start_ms: int, end_ms: int) -> Markup:
    """Return events on lanes. An event has ``at_ms``, ``lane``, ``kind`` and ``text``."""
    lanes = sorted({one["lane"] for one in events})[:ROW_COUNT_MAX]
    span_ms = max(1, end_ms - start_ms)
    parts = []
    for number, lane in enumerate(lanes):
        y = number * ROW_HEIGHT + 11
        parts.append(
            f'<text class="label" x="0" y="{y + 4}">{escape(short(lane))}</text>'
            f'<line class="lane" x1="{LABEL_WIDTH}" x2="{WIDTH}" y1="{y}" y2="{y}"/>'
        )
        for one in events:
            if one["lane"] == lane:
                x = LABEL_WIDTH + (WIDTH - LABEL_WIDTH - 8) * (one["at_ms"] - start_ms) / span_ms
                bad = one["kind"] in BAD_KINDS
                parts.append(
                    f'<circle class="{"bad" if bad else "good"}" cx="{x:.1f}" cy="{y}" r="5">'
                    f"<title>{escape(one['kind'])}: {escape(one['text'])}</title></circle>"
                )
    y = max(1, len(lanes)) * ROW_HEIGHT + 12
    ends = time_shown(start_ms)[11:], time_shown(end_ms)[11:]
    parts.append(f'<text class="tick" x="{LABEL_WIDTH}" y="{y}">{ends[0]}</text>')
    parts.append(f'<text class="tick end" x="{WIDTH}" y="{y}">{ends[1]} UTC</text>')
    text = f"{len(events)} events on {len(lanes)} lanes"
    return svg(WIDTH, y + 4, text, "".join(parts), "wide")


def _points(values: Sequence[float], width: float, height: float) -> str:
    """Return the points of a line through values, from 0 to their largest."""
    top = max(values, default=0.0) or 1.0
    step = width / max(1, len(values) - 1)
    return " ".join(
        f"{number * step:.1f},{height - 1 - (height - 2) * value / top:.1f}"
        for number, value in enumerate(values)
    )


def _gauge(x: float, y: float, width: float, share: float | None, limit: float = 0.9) -> str:
    """Return a bar that is filled to a share, in the color of problems from a limit on."""
    filled = width * min(1.0, max(0.0, share or 0.0))
    kind = "full" if share is not None and share >= limit else "fill"
    return (
        f'<rect class="track" x="{x}" y="{y}" width="{width:g}" height="5" rx="2"/>'
        f'<rect class="{kind}" x="{x}" y="{y}" width="{filled:.1f}" height="5" rx="2"/>'
    )
