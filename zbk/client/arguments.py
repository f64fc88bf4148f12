"""What the public calls check before they send or make anything.

Each function returns the argument in the form that the client works with, or raises:
``ArgumentTypeError``, which is a ``TypeError``, if no value of its type is accepted, and
``ArgumentValueError``, which is a ``ValueError``, if another value of its type is. A call that
raises one of them has changed nothing, so it can be repeated with better arguments.

* An id or a size is an integer or anything that is one by ``__index__`` (numpy's, for example), but
  not a ``bool``: that is a mistake more often than a number.
* A time-out is a number of seconds. ``math.inf`` is no limit, because ``None`` is the client's
  default; other numbers are limited by ``TIMEOUT_S_MAX``, beyond which clocks and locks overflow.
* Bytes are anything with a buffer. A text is refused, because its encoding is not known.
* A member of an enumeration may be given by its name.

Pure functions; any thread.
"""

import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from numbers import Real
from operator import index
from typing import Any, Final, SupportsIndex, TypeVar

import msgspec

from zbk.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    EntryTooLargeError,
    ZbkError,
)
from zbk.metadata.paths import check_bookie_id, data_set_path, log_path
from zbk.protocol.entry.words import ENTRY_ID_MAX, LEDGER_ID_MAX
from zbk.protocol.log.position import LogPosition

TIMEOUT_S_MAX: Final = 1_000_000_000.0
"""31 years. Locks and clocks that count nanoseconds in 64 bits overflow after 292."""

NUMBER_MAX: Final = 2**63 - 1
"""What a signed integer of eight bytes holds."""

PASSWORD_SIZE_MAX: Final = 64 * 1024

CUSTOM_METADATA_SIZE_MAX: Final = 256 * 1024
"""Bytes of all keys and values: the rest of the ledger's metadata needs room to grow."""

CUSTOM_METADATA_COUNT_MAX: Final = 1_024

TEXT_SHOWN_MAX: Final = 80
"""Characters of a bad argument that an error repeats."""

_LOAD_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)

StructT = TypeVar("StructT", bound=msgspec.Struct)
KindT = TypeVar("KindT", bound=StrEnum)
InstanceT = TypeVar("InstanceT")


# ------------------------------------------------------------------ numbers


def seconds(value: object, name: str = "timeout") -> float:
    """Return a time-out in seconds; ``math.inf`` becomes ``TIMEOUT_S_MAX``.

    >>> seconds(5), seconds(math.inf)
    (5.0, 1000000000.0)

    Raises:
        ArgumentTypeError: it is no number.
        ArgumentValueError: it is NaN, negative, or over the limit.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Real):
        raise _wrong_type(name, value, "give seconds, such as 5 or 0.5, or math.inf for no limit")
    try:
        number = float(value)
    except OverflowError:
        number = math.nan  # an integer over every limit
    if number == math.inf:
        return TIMEOUT_S_MAX
    if not 0 <= number <= TIMEOUT_S_MAX:
        why = f"give 0 to {TIMEOUT_S_MAX:.0f} seconds, or math.inf for no limit"
        raise ArgumentValueError(name, _shown(value), why)
    return number


def integer(name: str, value: object, low: int, high: int) -> int:
    """Return an integer between two others.

    Raises:
        ArgumentTypeError: it is no integer.
        ArgumentValueError: it lies elsewhere.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise _wrong_type(name, value, "give an integer")
    value = index(value)
    if not low <= value <= high:
        raise ArgumentValueError(name, _shown(value), f"must be between {low} and {high}")
    return value


def ledger_id(value: object, name: str = "ledger_id") -> int:
    """Return the id of a ledger.

    Raises:
        ArgumentTypeError: it is no integer.
        ArgumentValueError: no ledger can have it.
    """
    return integer(name, value, 0, LEDGER_ID_MAX)


def entry_id(name: str, value: object) -> int:
    """Return the id of an entry. Raises as ``ledger_id``."""
    return integer(name, value, 0, ENTRY_ID_MAX)


def last_entry_id(name: str, value: object) -> int:
    """Return where a range of entries ends; before its beginning if it is empty."""
    return integer(name, value, -NUMBER_MAX, ENTRY_ID_MAX)


def flag(name: str, value: object) -> bool:
    """Return a truth value.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not isinstance(value, bool):
        raise _wrong_type(name, value, "give True or False")
    return value


# ------------------------------------------------------------------ bytes


def payload(value: object, name: str = "payload") -> bytes:
    """Return the bytes of an entry.

    Raises:
        ArgumentTypeError: it has no buffer.
        ArgumentValueError: its buffer cannot be read.
    """
    if type(value) is bytes:
        return value
    try:
        return bytes(memoryview(value))  # type: ignore[arg-type]  # any buffer; it raises otherwise
    except TypeError:
        hint = ": encode the text first" if isinstance(value, str) else ""
        why = f"give bytes, or anything else with a buffer{hint}"
        raise ArgumentTypeError(name, type(value).__name__, why) from None
    except (ValueError, BufferError) as error:
        raise ArgumentValueError(name, type(value).__name__, str(error)) from None


def payloads(values: object, entry_size_max: int) -> tuple[list[bytes], int]:
    """Return the bytes of many entries, each up to a size, and the size of all.

    Raises:
        ArgumentTypeError: they are a single payload, no iterable, or one has no buffer.
        EntryTooLargeError: one is over the limit.
    """
    if isinstance(values, bytes | bytearray | memoryview | str | Mapping):
        raise ArgumentTypeError(
            "payloads", type(values).__name__, "give an iterable of payloads, such as a list"
        )
    try:
        batch = list(values)  # type: ignore[call-overload]  # it raises what is caught here
    except TypeError:
        if isinstance(values, Iterable):
            raise  # its own, from what it iterates
        why = "give an iterable of payloads, such as a list"
        raise _wrong_type("payloads", values, why) from None
    if set(map(type, batch)) - {bytes}:
        batch = [one if type(one) is bytes else payload(one, "payloads") for one in batch]
    size = sum(map(len, batch))
    if size > entry_size_max:  # only then it is worth to look at each
        largest = max(map(len, batch))
        if largest > entry_size_max:
            raise EntryTooLargeError(largest, entry_size_max)
    return batch, size


def password(value: object) -> bytes:
    """Return a ledger's password. No error repeats it.

    Raises:
        ArgumentTypeError: it has no buffer.
        ArgumentValueError: it is over ``PASSWORD_SIZE_MAX``.
    """
    data = payload(value, "password")
    if len(data) > PASSWORD_SIZE_MAX:
        why = f"has over {PASSWORD_SIZE_MAX} bytes"
        raise ArgumentValueError("password", f"{len(data)} bytes", why)
    return data


def custom_metadata(value: object) -> dict[str, bytes]:
    """Return what an application keeps with a ledger; ``None`` is nothing.

    Raises:
        ArgumentTypeError: it is no mapping of texts to bytes.
        ArgumentValueError: it has too many keys, too many bytes, or a text that is none.
    """
    name = "custom_metadata"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong_type(name, value, "give a mapping of texts to bytes")
    if len(value) > CUSTOM_METADATA_COUNT_MAX:
        why = f"has over {CUSTOM_METADATA_COUNT_MAX} keys"
        raise ArgumentValueError(name, f"{len(value)} keys", why)
    found = {}
    size = 0
    for key, one in value.items():
        if not isinstance(key, str):
            raise _wrong_type(f"a key of {name}", key, "give a text")
        found[key] = payload(one, f"{name}[{_shown(key)!r}]")
        size += text_size(f"a key of {name}", key) + len(found[key])
    if size > CUSTOM_METADATA_SIZE_MAX:
        why = f"has over {CUSTOM_METADATA_SIZE_MAX} bytes"
        raise ArgumentValueError(name, f"{size} bytes", why)
    return found


# ------------------------------------------------------------------ texts


def text(name: str, value: object, size_max: int) -> str:
    """Return a text of so many bytes at most.

    Raises:
        ArgumentTypeError: it is no text.
        ArgumentValueError: it is too long, or cannot be encoded.
    """
    if not isinstance(value, str):
        raise _wrong_type(name, value, "give a text")
    if text_size(name, value) > size_max:
        raise ArgumentValueError(name, _shown(value), f"is over {size_max} bytes")
    return value


def text_size(name: str, value: str) -> int:
    """Return the bytes of a text.

    Raises:
        ArgumentValueError: it cannot be encoded.
    """
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        raise ArgumentValueError(name, ascii(value)[:TEXT_SHOWN_MAX], str(error.reason)) from None


def bookie_id(value: object) -> str:
    """Return the id of a bookie.

    Raises:
        ArgumentTypeError: it is no text.
        InvalidOptionError: no bookie can have it.
    """
    if not isinstance(value, str):
        raise _wrong_type("bookie_id", value, "give a text: `zbk bookie ls` lists them")
    check_bookie_id(value)
    return value


def log_name(value: object) -> str:
    """Return the name of a log.

    Raises:
        ArgumentTypeError: it is no text.
        InvalidOptionError: no log can have it.
    """
    if not isinstance(value, str):
        raise _wrong_type("name", value, "give the log's name, a text")
    log_path(value)
    return value


def data_set_name(value: object) -> str:
    """Return the name of a data set. Raises as ``log_name``."""
    if not isinstance(value, str):
        raise _wrong_type("name", value, "give the data set's name, a text")
    data_set_path(value)
    return value


def load_id(value: object) -> str:
    """Return the id of a load; an empty one is none.

    Raises:
        ArgumentTypeError: it is no text.
        ArgumentValueError: no load can have it.
    """
    if not isinstance(value, str):
        raise _wrong_type("load_id", value, "give a text, from new_load_id")
    if value and _LOAD_ID.fullmatch(value) is None:
        why = "is no id of a load: new_load_id makes them"
        raise ArgumentValueError("load_id", _shown(value), why)
    return value


# ------------------------------------------------------------------ things


def member(kind: type[KindT], name: str, value: object) -> KindT:
    """Return a member of an enumeration, which may be given by its name.

    Raises:
        ArgumentTypeError: it is neither.
        ArgumentValueError: there is no such member.
    """
    known = ", ".join(kind)
    if not isinstance(value, str):
        raise _wrong_type(name, value, f"give one of {known}")
    if value not in list(kind):
        raise ArgumentValueError(name, _shown(value), f"is none of {known}")
    return kind(value)


def instance(name: str, value: object, kind: type[InstanceT]) -> InstanceT:
    """Return a value of a class.

    Raises:
        ArgumentTypeError: it is of another one.
    """
    if not isinstance(value, kind):
        raise _wrong_type(name, value, f"give a {kind.__name__}")
    return value


def instances(name: str, values: object, kind: type[InstanceT]) -> list[InstanceT]:
    """Return a list of instances of a class, from anything that can be iterated over.

    Raises:
        ArgumentTypeError: it cannot, or one of them is something else.
    """
    if not isinstance(values, Iterable):
        raise _wrong_type(name, values, f"give a list of {kind.__name__}")
    return [instance(name, value, kind) for value in values]


def struct(name: str, value: object, kind: type[StructT]) -> StructT:
    """Return a struct whose fields have the types that they should have.

    Raises:
        ArgumentTypeError: it is another struct, or one of its fields is wrong.
    """
    found = instance(name, value, kind)
    try:
        msgspec.convert(msgspec.structs.asdict(found), kind)
    except msgspec.ValidationError as error:
        raise ArgumentTypeError(name, _shown(found), str(error)) from None
    return found


def position(name: str, value: object) -> LogPosition:
    """Return a position in a log.

    Raises:
        ArgumentTypeError: it is none.
        ArgumentValueError: no entry can be there.
    """
    if not isinstance(value, LogPosition):
        why = "give a LogPosition; LogPosition.parse reads a text such as 7:42"
        raise _wrong_type(name, value, why)
    ledger_id(value.ledger_id, f"{name}.ledger_id")
    entry_id(f"{name}.entry_id", value.entry_id)
    return value


def optional_position(name: str, value: object) -> LogPosition | None:
    """Return a position in a log, or none. Raises as ``position``."""
    return None if value is None else position(name, value)


def function(name: str, value: Any) -> Any:  # noqa: ANN401 - its caller knows its type
    """Return something that can be called.

    Raises:
        ArgumentTypeError: it cannot.
    """
    if not callable(value):
        raise _wrong_type(name, value, "give a function")
    return value


def _wrong_type(name: str, value: object, why: str) -> ZbkError:
    return ArgumentTypeError(name, f"{_shown(value)} ({type(value).__name__})", why)


def _shown(value: object) -> str:
    try:
        told = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - a very large integer, or an application's own mistake
        told = type(value).__name__
    return told if len(told) <= TEXT_SHOWN_MAX else told[:TEXT_SHOWN_MAX] + "..."
