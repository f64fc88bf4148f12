"""Conversion of plain values to structs and other types, in any thread.

msgspec builds what it knows of a type when the type is first converted to, in several steps between
which other threads run. A second thread that converts to the type meanwhile reads what is half
built, and the process ends with a segmentation fault (msgspec 0.22). So each type is made ready
once, under a lock, and zbk converts through this module only; ``tests.unit.test_conversion``
checks that.

>>> convert({"first": 1}, dict[str, int])
{'first': 1}
>>> decode_json(b"[1, 2]", list[int])
[1, 2]
"""

from collections.abc import Iterable
from threading import Lock
from typing import Any, Final, TypeVar

import msgspec

KindT = TypeVar("KindT")
"""A type, or what stands for one: ``dict[str, int]``, ``int | str``."""

T = TypeVar("T")

_LOCK: Final = Lock()
_ready: set[object] = set()


def ready(kind: KindT) -> KindT:
    """Return a type, all of which msgspec has built."""
    if kind not in _ready:
        with _LOCK:
            msgspec.json.Decoder(kind)
            _ready.add(kind)
    return kind


def convert(value: object, kind: type[T], *, builtin_types: Iterable[type[Any]] = ()) -> T:
    """Return a value as a type.

    ``builtin_types``: types besides those of JSON that the value may have, as they are.

    Raises:
        msgspec.ValidationError: it is none of the type.
    """
    return msgspec.convert(value, ready(kind), builtin_types=builtin_types)


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Return the value of a type in a JSON text.

    Raises:
        msgspec.DecodeError: it is no JSON; ``ValidationError`` among them, if not of the type.
    """
    return msgspec.json.decode(data, type=ready(kind))
