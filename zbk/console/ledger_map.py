"""The map of a ledger, as SVG: bookies as rows, entries from left to right. Pure.

    fragment_map    the whole ledger: a column for each fragment
    entry_map       a few entries, a cell for each copy: which bookies hold which entry

Both mark the LAC (confirmed), the LAS (synced at an ack quorum) and the LAP (the last entry that a
bookie has). Between LAS and LAP of an open VD ledger lies what a loss of power takes.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from markupsafe import Markup

from zbk.console.svg import LABEL_WIDTH, ROW_COUNT_MAX, ROW_HEIGHT, WIDTH, short, svg

BLOCK_COUNT_MAX: Final = 400
"""Fragments that a map shows: the last ones."""

MARKS: Final = ("LAC", "LAS", "LAP")
"""Names of marks, in the order of their entries."""

TOP: Final = 18
"""Height of the names of marks, above the rows."""

_ROOM: Final = WIDTH - LABEL_WIDTH - 8
PATTERNS: Final = Markup(
    '<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>'
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="hatchback" width="6" height="6"/>'
    '<line class="hatchline" x1="0" y1="0" x2="0" y2="6"/></pattern>'
    '<pattern id="stripes" width="9" height="9" patternUnits="userSpaceOnUse">'
    '<rect class="fill" width="6" height="9"/><rect class="atrisk" x="6" width="3" height="9"/>'
    "</pattern></defs></svg>"
)
"""What maps are filled with: once on each page that has maps."""


class _Columns:
    """The place of each entry: columns of fragments, with a minimal width for short ones."""

    def __init__(self, fragments: Sequence[Any], end_id: int) -> None:
        self.spans: list[tuple[int, int]] = [
            (
                one["first_entry_id"],
                end_id if one["last_entry_id"] is None else one["last_entry_id"],
            )
            for one in fragments
        ]
        sizes = [max(1, last - first + 1) for first, last in self.spans]
        whole = sum(sizes) or 1
        self.widths = [0.3 * _ROOM / max(1, len(sizes)) + 0.7 * _ROOM * n / whole for n in sizes]
        self.starts = [LABEL_WIDTH + sum(self.widths[:n]) for n in range(len(sizes))]
        self._sizes = sizes

    def place(self, number: int, entry_id: float) -> float:
        """Return where an entry begins in a column; an entry outside of it is at its edge."""
        share = (entry_id - self.spans[number][0]) / self._sizes[number]
        return self.starts[number] + self.widths[number] * min(1.0, max(0.0, share))

    def after(self, entry_id: int) -> float:
        """Return where an entry of any column ends."""
        for number in reversed(range(len(self.spans))):
            if entry_id >= self.spans[number][0]:
                return self.place(number, entry_id + 1)
        return float(LABEL_WIDTH)


def fragment_map(
    fragments: Sequence[Any],
    bookies: Sequence[Any],
    marks: Mapping[str, int] | None = None,
    *,
    is_striped: bool = False,
) -> Markup:
    """Return the map of a ledger: bookies as rows, fragments as columns.

    A fragment has ``first_entry_id``, ``last_entry_id`` and ``bookies``; a bookie ``bookie_id``,
    ``is_registered``, ``last_entry_id``, ``last_add_synced``, ``missing`` (spans that it should
    hold) and ``unknown_from`` (an entry id, or ``None``). ``marks`` are entry ids by name. The
    width of a block follows the number of its entries, with a minimum. An open fragment ends at the
    last entry that a bookie holds.
    """
    shown, rows = fragments[-BLOCK_COUNT_MAX:], bookies[:ROW_COUNT_MAX]
    end_id = _last_entry_id(shown, bookies)
    columns = _Columns(shown, end_id)
    height = len(rows) * ROW_HEIGHT
    top = TOP if marks else 0
    parts = _marks(columns, marks, height) if shown and marks else []
    for number, bookie in enumerate(rows):
        y = top + number * ROW_HEIGHT
        kind = "" if bookie["is_registered"] else " lost"
        name = escape(short(bookie["bookie_id"]))
        parts.append(f'<text class="label{kind}" x="0" y="{y + 15}">{name}</text>')
        for column, one in enumerate(shown):
            if bookie["bookie_id"] in one["bookies"]:
                parts += _blocks(columns, column, bookie, y, is_striped=is_striped)
        if bookie["last_add_synced"] is not None and bookie["last_add_synced"] >= 0:
            x = columns.after(bookie["last_add_synced"])
            title = f"{bookie['bookie_id']}: synced up to {bookie['last_add_synced']:,}"
            parts.append(
                f'<line class="sync" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1}" '
                f'y2="{y + ROW_HEIGHT - 1}"><title>{escape(title)}</title></line>'
            )
    y = top + height + 14
    parts += _ticks(columns, end_id, y)
    text = f"{len(shown)} fragments on {len(rows)} bookies"
    return svg(WIDTH, y + 6, text, "".join(parts), "wide")


def entry_map(window: Any) -> Markup:  # noqa: ANN401 - plain data
    """Return a cell for each copy of a few entries.

    ``window`` has ``first_entry_id``, ``last_entry_id`` and ``rows`` of ``bookie_id`` and
    ``copies``: for each entry the state of this bookie's copy, or "" where none is due.
    """
    first, last, rows = window["first_entry_id"], window["last_entry_id"], window["rows"]
    count = max(1, last - first + 1)
    width = _ROOM / count
    parts = []
    for number, row in enumerate(rows[:ROW_COUNT_MAX]):
        y = number * ROW_HEIGHT
        name = escape(short(row["bookie_id"]))
        parts.append(f'<text class="label" x="0" y="{y + 15}">{name}</text>')
        for at, state in enumerate(row["copies"]):
            if state:
                title = f"{row['bookie_id']}: entry {first + at:,} {state}"
                x = LABEL_WIDTH + at * width
                parts.append(_rect(_CELLS[state], x, y + 3, width - 1, title))
    y = len(rows[:ROW_COUNT_MAX]) * ROW_HEIGHT + 14
    step = max(1, -(-count // 8))
    for at in range(0, count, step):
        x = LABEL_WIDTH + at * width
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y}">{first + at:,}</text>')
    text = f"copies of the entries {first:,} to {last:,} on {len(rows)} bookies"
    return svg(WIDTH, y + 6, text, "".join(parts), "wide")


# ------------------------------------------------------------------ private

_CELLS: Final = {
    "stored": "block",
    "not synced": "atrisk",
    "missing": "hole",
    "on a lost bookie": "block lost",
    "unknown": "unknown",
    "not yet there": "coming",
}
"""States of a copy, and how they are drawn."""

_PATTERNS: Final = {"hole": "hatch", "block lost": "hatch", "block striped": "stripes"}


def _blocks(
    columns: _Columns,
    column: int,
    bookie: Mapping[str, Any],
    y: float,
    *,
    is_striped: bool,
) -> list[str]:
    """Return the block of a bookie in a fragment, and over it what is missing and unknown."""
    first, last = columns.spans[column]
    name, x = bookie["bookie_id"], columns.starts[column]
    width = columns.widths[column] - 1
    held = f"entries {first:,} to {last:,}" if first <= last else "no entry yet"
    title = f"{name}: {held}"
    if not bookie["is_registered"]:
        text = f"{title}, on a bookie that is not registered"
        return [_rect("block lost", x, y + 3, width, text)]
    parts = [_rect("block striped" if is_striped else "block", x, y + 3, width, title)]
    spans = ((max(one[0], first), min(one[1], last)) for one in bookie["missing"])
    for begin, end in spans:
        if begin <= end:
            left = columns.place(column, begin)
            size = max(3.0, columns.place(column, end + 1) - left - 1)
            text = f"{name}: lacks entries {begin:,} to {end:,}"
            parts.append(_rect("hole", min(left, x + width - size), y + 3, size, text))
    unknown_from = bookie["unknown_from"]
    if unknown_from is not None and unknown_from <= max(first, last):
        left = columns.place(column, unknown_from)
        text = f"{name}: not known from {max(first, unknown_from):,} to {last:,}"
        parts.append(_rect("unknown", left, y + 3, max(3.0, x + width - left), text))
    return parts


def _rect(kind: str, x: float, y: float, width: float, title: str) -> str:
    pattern = _PATTERNS.get(kind, "")
    style = f' style="fill:url(#{pattern})"' if pattern else ""
    return (
        f'<rect class="{kind}"{style} x="{x:.1f}" y="{y}" width="{max(0.5, width):.1f}" '
        f'height="{ROW_HEIGHT - 6}" rx="2"><title>{escape(title)}</title></rect>'
    )


def _marks(columns: _Columns, marks: Mapping[str, int], height: float) -> list[str]:
    """Return a line for each mark, with its name above the rows, and the gap between LAS and LAP.

    The names stand side by side and not on each other, whatever the distance of their lines.
    """
    parts = []
    places = sorted(((columns.after(marks[one]), one) for one in MARKS if one in marks), key=_x_of)
    if "LAS" in marks and "LAP" in marks:
        left, right = columns.after(marks["LAS"]), columns.after(marks["LAP"])
        parts.append(
            f'<rect class="gap" x="{left:.1f}" y="{TOP}" width="{max(0.0, right - left):.1f}" '
            f'height="{height}"/>'
        )
    limit = float(WIDTH)
    for x, name in reversed(places):
        text = f"{name} {marks[name]:,}" if marks[name] >= 0 else f"{name} none"
        end = min(limit, x + 6.2 * len(text) / 2)
        parts.append(
            f'<line class="mark {name}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" '
            f'y2="{TOP + height}"/><text class="tick end" x="{end:.1f}" y="11">{text}</text>'
        )
        limit = end - 6.2 * len(text)
    return parts


def _x_of(place: tuple[float, str]) -> float:
    return place[0]


def _ticks(columns: _Columns, end_id: int, y: float) -> list[str]:
    """Return the first entry ids of fragments, where there is room, and the last id of all."""
    parts = []
    last_x, room_end = -100.0, WIDTH - 8
    if end_id >= 0:
        parts.append(f'<text class="tick end" x="{room_end}" y="{y}">{end_id:,}</text>')
        room_end -= 64
    for (first, _last), x in zip(columns.spans, columns.starts, strict=True):
        if x - last_x > 64 and (x == LABEL_WIDTH or x < room_end - 48):
            parts.append(f'<text class="tick" x="{x:.1f}" y="{y}">{first:,}</text>')
            last_x = x
    return parts


def _last_entry_id(fragments: Sequence[Any], bookies: Sequence[Any]) -> int:
    """Return the last entry id of a ledger; of an open one, as far as bookies hold it."""
    if not fragments:
        return -1
    end: int | None = fragments[-1]["last_entry_id"]
    if end is not None:
        return end
    return max(
        (one["last_entry_id"] for one in bookies if one["last_entry_id"] is not None), default=-1
    )
