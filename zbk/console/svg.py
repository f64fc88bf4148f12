"""The frame of figures: sizes, the SVG element, short names. Pure."""

from html import escape
from typing import Final

from markupsafe import Markup

WIDTH: Final = 720
LABEL_WIDTH: Final = 150
ROW_HEIGHT: Final = 22
ROW_COUNT_MAX: Final = 64


def svg(width: float, height: float, text: str, body: str, kind: str) -> Markup:
    """Return a figure; ``text`` is for screen readers, ``body`` is escaped already."""
    return Markup(  # noqa: S704 - each text in it is escaped
        f'<svg class="{kind}" role="img" aria-label="{escape(text)}" '
        f'viewBox="0 0 {width:g} {height:g}">{body}</svg>'
    )


def short(name: str, size: float = 20) -> str:
    """Return a name, cut to a number of characters.

    >>> short("bookie", 4)
    'boo…'
    """
    return name if len(name) <= size else f"{name[: int(size) - 1]}…"
