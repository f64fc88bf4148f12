"""Which requests and answers of one connection are sent as one message.

Only small ones are bundled: copying a large frame costs more than a message. All keep their order.
A peer that does not know bundles gets each request or answer in its own message.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from zbk.transport.frames import Frame
from zbk.wire import codec
from zbk.wire.bundle import join_frames, split_frames
from zbk.wire.messages import (
    BUNDLE_VERSION,
    PART_COUNT_MAX,
    AnswerBundle,
    Bundle,
    Message,
    PartAnswer,
    PartRequest,
)


class BundleLimits(msgspec.Struct, frozen=True):
    """Limits of a bundle. The wire format limits the count; the sizes are this module's choice."""

    part_size_max: int = 16 * 1024  # bytes of the frames of a part
    size_max: int = 256 * 1024  # bytes of the frames of all parts
    count_max: int = PART_COUNT_MAX


LIMITS: Final = BundleLimits()

_PARTS: Final = frozenset([*PartRequest.__args__, *PartAnswer.__args__])

MessageT = TypeVar("MessageT", bound=Message)

Part = tuple[Message, Sequence[Frame]]
"""A request or an answer, and its frames."""


def groups(parts: list[Part], version: int, limits: BundleLimits = LIMITS) -> Iterable[list[Part]]:
    """Return the parts, in order, in groups of which each fits into one message."""
    if len(parts) == 1:
        return [parts]
    if version < BUNDLE_VERSION:
        return [[part] for part in parts]
    return _groups(parts, limits)


def _groups(parts: Iterable[Part], limits: BundleLimits) -> Iterator[list[Part]]:
    group: list[Part] = []
    group_size = 0
    for part in parts:
        message, frames = part
        size = sum(map(len, frames))
        is_small = type(message) in _PARTS and size <= limits.part_size_max
        is_full = len(group) == limits.count_max or group_size + size > limits.size_max
        if group and (not is_small or is_full):
            yield group
            group, group_size = [], 0
        if is_small:
            group.append(part)
            group_size += size
        else:
            yield [part]
    if group:
        yield group


def request_frames(group: Sequence[Part], incarnation: int) -> list[Frame]:
    """Return the message that carries a group of requests."""
    if len(group) == 1:
        ((request, frames),) = group
        return [codec.encode(request), *frames]
    sizes, body = join_frames([frames for _request, frames in group])
    parts: list[PartRequest] = [request for request, _frames in group]  # type: ignore[misc]
    return [
        codec.encode(Bundle(request_id=0, incarnation=incarnation, parts=parts, sizes=sizes)),
        body,
    ]


def answer_messages(group: Sequence[Part]) -> Iterator[list[Frame]]:
    """Yield the message that carries a group of answers; one for each if the header is too long."""
    if len(group) > 1:
        sizes, body = join_frames([frames for _answer, frames in group])
        parts: list[PartAnswer] = [answer for answer, _frames in group]  # type: ignore[misc]
        header = codec.encode(AnswerBundle(request_id=0, parts=parts, sizes=sizes))
        if len(header) <= codec.HEADER_SIZE_MAX:
            yield [header, body]
            return
    for answer, frames in group:
        yield [codec.encode(answer), *frames]


def parts_of(
    messages: Sequence[MessageT], sizes: Sequence[Sequence[int]], frames: Sequence[bytes]
) -> list[tuple[MessageT, tuple[bytes, ...]]]:
    """Return the messages in a bundle with their frames; ``frames`` follow the bundle's header.

    Raises:
        MalformedMessageError: the frames do not have the sizes in the header.
    """
    body = frames[0] if len(frames) == 1 else b""
    own = split_frames(sizes, body, len(messages))
    return list(zip(messages, own, strict=True))
