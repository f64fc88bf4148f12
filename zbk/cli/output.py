"""The output of commands: tables for people, JSON for programs.

Only data goes to standard output. A table is text in columns. In a terminal its lines are cut at
the right edge, where ``…`` shows that, and the heading is bold (``NO_COLOR`` switches that off); a
pipe gets all of it. JSON is one object, or one object per line for lists, so that a million ledgers
stream.

In JSON, sizes are bytes, ids are integers, times are RFC 3339 in UTC, and bytes are
``{"base64": ..., "text": ...}``, with the text only if they are UTF-8.
"""

import base64
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import click

from zbk.cli.streams import above_progress, is_terminal

Format = Literal["table", "json"]

PREVIEW_SIZE: Final = 60  # bytes of a payload shown in a table
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def print_object(value: Mapping[str, Any], output: Format) -> None:
    """Print one thing: a ``name  value`` line per field, or a JSON object."""
    if output == "json":
        print_json(value)
        return
    width = max(map(len, value), default=0)
    for name, field in value.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {_cell(field)}")


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    output: Format,
    *,
    is_live: bool = False,
) -> None:
    """Print many things: a table of these columns, or one JSON object per line.

    A table is printed in pages of ``PAGE_ROW_COUNT`` rows, so that it streams, too; with
    ``is_live`` each row is printed as it comes.
    """
    if output == "json":
        for row in rows:
            print_json(row)
        return
    page: list[list[str]] = [[name.upper().replace("_", "-") for name in columns]]
    widths: list[int] = [0] * len(columns)
    is_head = True
    for row in rows:
        page.append([_cell(row[name]) for name in columns])
        if is_live or len(page) > PAGE_ROW_COUNT:
            widths = _print_page(page, widths, is_head=is_head)
            page, is_head = [], False
    _print_page(page, widths, is_head=is_head)


PAGE_ROW_COUNT: Final = 200


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line."""
    click.echo(json.dumps(value, default=_json_default, ensure_ascii=False))


def print_bytes(value: bytes | memoryview) -> None:
    """Write bytes to standard output, unchanged."""
    sys.stdout.buffer.write(value)


def flush() -> None:
    """Flush standard output."""
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """Print a line that is not data, on standard error."""
    with above_progress():
        click.echo(text, err=True)


def is_progress_shown() -> bool:
    """Return whether standard error is a terminal."""
    return is_terminal(sys.stderr)


def preview(payload: bytes | memoryview) -> str:
    """Return the start of a payload as one printable line.

    >>> preview(b"one line" + bytes([10])), preview(bytes([0, 255]))
    ('one line', '00ff')
    """
    start = bytes(payload[:PREVIEW_SIZE])
    try:
        # the preview may cut a character at its end
        text = start.decode("utf-8", errors="strict" if len(start) == len(payload) else "ignore")
    except UnicodeDecodeError:
        text = ""
    text = text.rstrip("\r\n")
    if not (text and text.replace("\t", " ").isprintable()):
        text = start.hex()
    return text.replace("\t", " ") + ("..." if len(payload) > PREVIEW_SIZE else "")


def time_text(wall_ms: int) -> str:
    """Return a wall clock time in UTC, as RFC 3339.

    >>> time_text(1_500)
    '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(wall_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size_text(size: int) -> str:
    """Return a size in bytes for people.

    >>> size_text(512), size_text(1536), size_text(3 * 1024**3)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit has no limit")


def duration_text(duration_ms: int) -> str:
    """Return a duration for people, in its two largest units.

    >>> duration_text(250), duration_text(6_360), duration_text(2_014_715)
    ('250 ms', '6.4 s', '33 min 34 s')
    >>> duration_text(90_000_000), duration_text(0)
    ('1 d 1 h', '0 ms')
    """
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1_000:.1f} s"
    seconds = duration_ms // 1_000
    parts: list[str] = []
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length_s)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def readable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields for people: sizes, times and shares, by the endings of their names.

    >>> readable({"add_size": 1536, "uptime_ms": 6_360, "scrub_ended_ms": 0, "scrub_share": 0.25})
    {'add_size': '1.5 KiB', 'uptime': '6.4 s', 'scrub_ended': None, 'scrub_share': '25 %'}
    """
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if name.endswith("_ended_ms"):  # wall clock; 0: not yet
            shown[name.removesuffix("_ms")] = time_text(value) if value else None
        elif name.endswith("_ms"):
            shown[name.removesuffix("_ms")] = duration_text(value)
        elif name.endswith("_size"):
            shown[name] = size_text(value)
        elif name.endswith("_share"):
            shown[name] = f"{value:.0%}".replace("%", " %")
        else:
            shown[name] = value
    return shown


def rate_text(per_s: float) -> str:
    """Return a rate for people.

    >>> rate_text(123_456.0), rate_text(950.0)
    ('123 k/s', '950 /s')
    """
    if per_s >= 10_000:
        return f"{per_s / 1000:,.0f} k/s"
    return f"{per_s:,.0f} /s"


def bytes_value(value: bytes | memoryview) -> dict[str, str]:
    """Return bytes in the form of JSON output."""
    data = bytes(value)
    shown = {"base64": base64.b64encode(data).decode("ascii")}
    try:
        shown["text"] = data.decode("utf-8")
    except UnicodeDecodeError:
        return shown
    return shown


def _json_default(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return bytes_value(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def _cell(value: object) -> str:
    match value:
        case None | "":
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case float():
            text = f"{value:,.3f}"
        case bytes() | memoryview():
            text = preview(value)
        case Mapping():
            text = " ".join(f"{key}={_cell(field)}" for key, field in value.items()) or "-"
        case list() | tuple():
            text = ",".join(map(_cell, value)) or "-"
        case _:
            text = str(value)
    return text


def _print_page(page: list[list[str]], widths: list[int], *, is_head: bool) -> list[int]:
    widths = [
        max(width, *(len(row[column]) for row in page)) if page else width
        for column, width in enumerate(widths)
    ]
    line_width = _line_width()
    for number, row in enumerate(page):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        if line_width and len(line) > line_width:
            line = line[: line_width - 1] + _cut_mark()
        if is_head and number == 0 and _is_styled():
            line = click.style(line, bold=True)
        click.echo(line)
    return widths


def _line_width() -> int:
    """Return the columns of the terminal; 0 if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else 0


def _cut_mark() -> str:
    return "…" if (sys.stdout.encoding or "").lower().startswith("utf") else ">"


def _is_styled() -> bool:
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
