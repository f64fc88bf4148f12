"""Sets of entry ids as *spans*: pairs of a first and a last id, both inclusive. Pure.

A list of spans is *in order* when it ascends and no two of them touch or overlap.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""First and last entry id, both inclusive."""

SHOWN_COUNT = 8
"""Spans that a text lists; it counts the others."""


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the same ids as spans in order.

    >>> merged([(5, 9), (0, 1), (2, 3), (6, 7)])
    [(0, 3), (5, 9)]
    """
    result: list[Span] = []
    for first, last in sorted(spans):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return result


def covering(spans: Iterable[Span], count_max: int) -> tuple[Span, ...]:
    """Return at most ``count_max`` spans in order that cover all these ids and as few others.

    The narrowest gaps are closed first.

    >>> covering([(0, 0), (9, 9), (2, 2), (20, 21)], 2)
    ((0, 9), (20, 21))
    """
    assert count_max > 0, "no spans cannot cover any id"
    exact = merged(spans)
    if len(exact) <= count_max:
        return tuple(exact)
    gaps = [(after[0] - before[1], index) for index, (before, after) in enumerate(pairwise(exact))]
    widest = sorted(sorted(gaps, reverse=True)[: count_max - 1], key=lambda gap: gap[1])
    cuts = [index for _width, index in widest]
    starts = [0, *(index + 1 for index in cuts)]
    ends = [*cuts, len(exact) - 1]
    return tuple((exact[a][0], exact[b][1]) for a, b in zip(starts, ends, strict=True))


def overlaps(left: Sequence[Span], right: Sequence[Span]) -> Iterator[Span]:
    """Yield the spans of ids that are in both lists; both are in order.

    >>> list(overlaps([(0, 5), (8, 9)], [(4, 8)]))
    [(4, 5), (8, 8)]
    """
    at = 0
    for first, last in left:
        while at < len(right) and right[at][1] < first:
            at += 1
        index = at
        while index < len(right) and right[index][0] <= last:
            yield max(first, right[index][0]), min(last, right[index][1])
            index += 1


def spans_text(spans: Sequence[Span]) -> str:
    """Return spans as text; spans after the first ``SHOWN_COUNT`` are counted.

    >>> spans_text([(0, 3), (7, 7)])
    '0 .. 3, 7'
    """
    shown = [f"{first} .. {last}" if last > first else f"{first}" for first, last in spans]
    more = len(shown) - SHOWN_COUNT
    if more > 0:
        shown[SHOWN_COUNT:] = [f"and {more} more ranges"]
    return ", ".join(shown)


def spans_of(entry_ids: Sequence[int]) -> list[Span]:
    """Return the spans of ascending ids.

    >>> spans_of([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    if isinstance(entry_ids, range):
        return [(entry_ids[0], entry_ids[-1])]
    spans: list[Span] = []
    for entry_id in entry_ids:
        if spans and spans[-1][1] == entry_id - 1:
            spans[-1] = (spans[-1][0], entry_id)
        else:
            spans.append((entry_id, entry_id))
    return spans
