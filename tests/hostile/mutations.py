"""Real messages with changes: in a field, a type, a length, a nesting, a cut, or their order.

Random bytes rarely pass the first check. These begin as messages that a bookie accepts, so that the
changes reach the checks behind it.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgpack
import msgspec

from tests.support.storage_actor import batch
from zbk.protocol.entry.words import LedgerType
from zbk.transport.bundles import Part, request_frames
from zbk.wire import codec
from zbk.wire.messages import (
    Add,
    CollectGarbage,
    GetBookieInfo,
    GetLedgerInfo,
    Hello,
    Ping,
    Read,
    ReadLac,
    Scrub,
    Sync,
    WatchLacs,
    WriteLac,
)

Message = list[bytes]
"""The frames of a message, the header first."""

NUMBERS: Final = (-(2**63), -1, 0, 1, 255, 2**16, 2**31 - 1, 2**32, 2**40 - 1, 2**63 - 1, 2**64 - 1)
VALUES: Final[tuple[Any, ...]] = (
    *NUMBERS, None, True, 0.5, float("inf"), float("nan"), "", "x" * 300, "\x00\ud7ff/../", b"",
    b"\xff" * 40, b"." * 30_000, [], [[]], [0] * 1_000, {}, {"op": "add"}, {"a": {"b": {}}},
)  # fmt: skip
REPEATED_SIZE_MAX: Final = 4096
"""Bytes of a header of which a part is repeated often: several changes in a row multiply."""
NESTING_COUNT_MAX: Final = 30_000


def real_requests(ledger_id: int, key: bytes, incarnation: int) -> list[Message]:
    """Return messages of each kind about one ledger, as a client sends them."""
    about: dict[str, Any] = {
        "ledger_id": ledger_id,
        "ledger_key": key,
        "ledger_type": LedgerType.PD_JOURNAL,
    }
    adds: list[Part] = []
    for first in (0, 3, 1_000):
        entries = batch(first, [b"one", b"", b"three" * 50], ledger_id=ledger_id)
        add = Add(
            request_id=first + 1,
            first_entry_id=first,
            count=entries.count,
            lac=first - 1,
            checksum=entries.checksum,
            **about,
        )
        adds.append((add, codec.encode_batch(entries)))
    fencing = Read(
        request_id=7, first_entry_id=0, last_entry_id=9, size_max=1_000, is_fencing=True, **about
    )
    others: list[Part] = [
        (fencing, ()),
        (Read(request_id=8, first_entry_id=0, last_entry_id=9, size_max=1_000, **about), ()),
        (ReadLac(request_id=9, **about, known_lac=-1, wait_ms=10), ()),
        (ReadLac(request_id=19, **about, is_fencing=True), ()),
        (WriteLac(request_id=10, lac=2, **about), ()),
        (Sync(request_id=11, ledger_id=ledger_id, ledger_key=key, lac=2), ()),
        (GetLedgerInfo(request_id=12, ledger_id=ledger_id), ()),
        (GetBookieInfo(request_id=13), ()),
        (CollectGarbage(request_id=14, is_round_wanted=False), ()),
        (Scrub(request_id=15, is_pass_wanted=False), ()),
        (Ping(request_id=16), ()),
        (WatchLacs(request_id=17, session_id=1, is_first=True, wait_ms=10), ()),
        (Hello(request_id=18, instance_id="i", bookie_id="b", software="zbk"), ()),
    ]
    lone = [
        [(msgspec.structs.replace(request, incarnation=incarnation), frames)]
        for request, frames in (*adds, *others)
    ]
    groups = [*lone, [*adds, *others[:7]]]
    return [[bytes(frame) for frame in request_frames(one, incarnation)] for one in groups]


class Mutations:
    """An endless series of changed messages; the same for the same seed."""

    def __init__(self, seed: int, samples: Sequence[Message]) -> None:
        self._random = random.Random(seed)
        self._samples = samples
        self._changes: tuple[Callable[[Message], Message], ...] = (
            self._with_field, self._with_field, self._with_field, self._without_field,
            self._with_nesting, self._flipped, self._cut, self._lengthened, self._reordered,
            self._with_foreign_frame,
        )  # fmt: skip

    def next(self) -> Message:
        """Return the next one: one to three changes of a message."""
        message = list(self._random.choice(self._samples))
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            message = self._random.choice(self._changes)(message)
        return message

    def _with_field(self, message: Message) -> Message:
        fields = _fields(message)
        if fields is None:
            return self._flipped(message)
        place, name = self._place(fields)
        place[name] = self._random.choice(VALUES)
        return [msgpack.packb(fields, unicode_errors="surrogatepass"), *message[1:]]

    def _without_field(self, message: Message) -> Message:
        fields = _fields(message)
        if fields is None:
            return self._cut(message)
        place, name = self._place(fields)
        if self._random.random() < 0.5:
            del place[name]
        elif isinstance(place, dict):
            place[self._random.choice(("later", "", "x" * 1_000))] = place.pop(name)
        else:
            count = self._random.choice((1, 2_000))
            place.extend([place[name]] * (count if len(message[0]) <= REPEATED_SIZE_MAX else 1))
        return [msgpack.packb(fields, unicode_errors="surrogatepass"), *message[1:]]

    def _place(self, fields: dict[str, Any]) -> tuple[Any, Any]:
        """Return a container somewhere in the header, and the name of one of its values."""
        place: Any = fields
        while True:
            name = self._random.choice([*place] if isinstance(place, dict) else range(len(place)))
            inner = place[name]
            if not (isinstance(inner, dict | list) and inner and self._random.random() < 0.8):
                return place, name
            place = inner

    def _with_nesting(self, message: Message) -> Message:
        depth = self._random.choice((10, 1_000, NESTING_COUNT_MAX))
        opening = self._random.choice((b"\x91", b"\x81\xa1x", b"\xdd\xff\xff\xff\xff"))
        nested = opening * (depth // len(opening)) + b"\xc0"
        tag = msgpack.packb("op") + msgpack.packb(self._random.choice(("add", "bundle", "none")))
        return [b"\x82" + tag + msgpack.packb("parts") + nested, *message[1:]]

    def _flipped(self, message: Message) -> Message:
        number = self._random.randrange(len(message))
        frame = bytearray(message[number] or b"\0")
        for _ in range(self._random.choice((1, 1, 8))):
            frame[self._random.randrange(len(frame))] ^= 1 << self._random.randrange(8)
        return [*message[:number], bytes(frame), *message[number + 1 :]]

    def _cut(self, message: Message) -> Message:
        number = self._random.randrange(len(message))
        frame = message[number]
        end = self._random.randrange(len(frame) + 1)
        return [*message[:number], frame[:end], *message[number + 1 :]]

    def _lengthened(self, message: Message) -> Message:
        number = self._random.randrange(len(message))
        more = self._random.randbytes(self._random.choice((1, 8, 70_000)))
        return [*message[:number], message[number] + more, *message[number + 1 :]]

    def _reordered(self, message: Message) -> Message:
        frames = [*message, *self._random.choice(([], [b""], message, message[-1:] * 3))]
        self._random.shuffle(frames)
        return frames

    def _with_foreign_frame(self, message: Message) -> Message:
        other = self._random.choice(self._samples)
        return [*message[:1], *other[1:]]


def _fields(message: Message) -> dict[str, Any] | None:
    """Return the header as a map; ``None`` if an earlier change has left none."""
    try:
        found = msgpack.unpackb(message[0], strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None
