"""Bundles: several messages in one, so that a message costs less than what it carries.

The frames of all parts lie back to back in one frame, and the header has their sizes. A ZeroMQ
message, and each of its frames, costs some microseconds on both sides, as much as a small entry.

Pure. What may be bundled, and how much of it, is decided by the sender.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice, pairwise

from zbk.errors import MalformedMessageError

Frames = Sequence[bytes | bytearray | memoryview]


def join_frames(parts: Iterable[Frames]) -> tuple[list[list[int]], bytes]:
    """Return the sizes of the frames of each part, and all of them back to back.

    >>> join_frames([(b"ab", b"c"), (), (b"",)])
    ([[2, 1], [], [0]], b'abc')
    """
    parts = list(parts)
    sizes = [list(map(len, frames)) for frames in parts]
    return sizes, b"".join(chain.from_iterable(parts))


def split_frames(
    sizes: Sequence[Sequence[int]], body: bytes, part_count: int
) -> list[tuple[bytes, ...]]:
    """Return the frames of each part.

    Raises:
        MalformedMessageError: the sizes are not those of this body, or of so many parts.

    >>> split_frames([[2, 1], [], [0]], b"abc", 3)
    [(b'ab', b'c'), (), (b'',)]
    """
    if len(sizes) != part_count:
        raise MalformedMessageError(f"a bundle of {part_count} parts has sizes of {len(sizes)}")
    ends = list(accumulate(chain.from_iterable(sizes), initial=0))
    if ends[-1] != len(body):
        raise MalformedMessageError(f"a bundle of {ends[-1]} bytes has {len(body)}")
    frames = iter([body[start:end] for start, end in pairwise(ends)])
    return [tuple(islice(frames, len(own))) if own else () for own in sizes]
