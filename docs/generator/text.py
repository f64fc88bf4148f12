"""Parts of pages in Markdown."""

import re
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a table.

    >>> print(table(["a", "b"], [["x|y", "`x|y`"]]))
    | a | b |
    |---|---|
    | x\|y | `x|y` |
    """
    lines = [heads, *rows]
    shown = [f"| {' | '.join(_cell(text) for text in line)} |" for line in lines]
    return "\n".join([shown[0], "|---" * len(heads) + "|", *shown[1:]])


def code(text: str, language: str = "text") -> str:
    """Return a block of code."""
    return f"```{language}\n{text.strip(chr(10))}\n```"


def plain(docstring: str) -> str:
    """Return a docstring as Markdown: its ``literals`` are `literals`."""
    return re.sub(r"``([^`]+)``", r"`\1`", docstring)


def page(*parts: str) -> str:
    """Return a page from its parts."""
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell(text: str) -> str:
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(one if one.startswith("`") else one.replace("|", "\\|") for one in pieces)
