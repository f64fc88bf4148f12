"""Checks of the arguments of public calls, before they send or change anything.

Each function returns the argument in the form that the client works with, or raises one of:

    ArgumentTypeError     a ``TypeError``: no value of this type is accepted
    ArgumentValueError    a ``ValueError``: other values of this type are accepted

A call that raises one of them has changed nothing, so it can be repeated with other arguments.
Functions that raise further errors list them.

* An id or a size is an integer, or an object with ``__index__`` (numpy's, for example), but not a
  ``bool``, which is a mistake more often than a number.
* A time-out is a number of seconds. ``math.inf`` is no limit, because ``None`` is the client's
  default; other numbers are limited by ``TIMEOUT_S_MAX``, beyond which clocks and locks overflow.
* Bytes are any object with a buffer. A text is refused, because its encoding is not known.
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

from zbk.conversion import convert
from zbk.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    EntryTooLargeError,
    InvalidOptionError,
    ZbkError,
)
from zbk.metadata.paths import check_bookie_id, data_set_path, log_path
from zbk.protocol.entry.words import ENTRY_ID_MAX, LEDGER_ID_MAX
from zbk.protocol.ledger.access import (
    Grants,
    Right,
    check_grantee,
    check_namespace,
    grants_of,
    rights_named,
)
from zbk.protocol.log.position import LogPosition
from zbk.tracing.setup import TracerProvider

TIMEOUT_S_MAX: Final = 1_000_000_000.0
"""31 years. Locks and clocks that count nanoseconds in 64 bits overflow after 292 years."""

NUMBER_MAX: Final = 2**63 - 1
"""The largest signed integer of eight bytes."""

PASSWORD_SIZE_MAX: Final = 64 * 1024

CUSTOM_METADATA_SIZE_MAX: Final = 256 * 1024
"""Bytes of all keys and values; the rest of the ledger's metadata needs room to grow."""

CUSTOM_METADATA_COUNT_MAX: Final = 1_024

TEXT_SHOWN_MAX: Final = 80
"""The number of characters of a bad argument that an error repeats."""

_LOAD_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)

StructT = TypeVar("StructT", bound=msgspec.Struct)
KindT = TypeVar("KindT", bound=StrEnum)
InstanceT = TypeVar("InstanceT")


# ------------------------------------------------------------------ numbers


def seconds(value: object, name: str = "timeout") -> float:
    """Return a time-out in seconds; ``math.inf`` becomes ``TIMEOUT_S_MAX``.

    >>> seconds(5), seconds(math.inf)
    (5.0, 1000000000.0)
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


def optional_seconds(value: object) -> float | None:
    """Return a time-out in seconds, or ``None``."""
    return None if value is None else seconds(value)


def integer(name: str, value: object, low: int, high: int) -> int:
    """Return an integer between two others."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise _wrong_type(name, value, "give an integer")
    value = index(value)
    if not low <= value <= high:
        raise ArgumentValueError(name, _shown(value), f"must be between {low} and {high}")
    return value


def ledger_id(value: object, name: str = "ledger_id") -> int:
    """Return the id of a ledger."""
    return integer(name, value, 0, LEDGER_ID_MAX)


def entry_id(name: str, value: object) -> int:
    """Return the id of an entry."""
    return integer(name, value, 0, ENTRY_ID_MAX)


def last_entry_id(name: str, value: object) -> int:
    """Return the last id of a range of entries, which is below the first one if it is empty."""
    return integer(name, value, -NUMBER_MAX, ENTRY_ID_MAX)


def flag(name: str, value: object) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool):
        raise _wrong_type(name, value, "give True or False")
    return value


# ------------------------------------------------------------------ bytes


def payload(value: object, name: str = "payload") -> bytes:
    """Return the bytes of an entry."""
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
    """Return the bytes of many entries, each up to a size, and their total size.

    Raises:
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
            raise  # an error of the iterable itself
        why = "give an iterable of payloads, such as a list"
        raise _wrong_type("payloads", values, why) from None
    if set(map(type, batch)) - {bytes}:
        batch = [one if type(one) is bytes else payload(one, "payloads") for one in batch]
    size = sum(map(len, batch))
    if size > entry_size_max:  # else no single one can exceed the limit
        largest = max(map(len, batch))
        if largest > entry_size_max:
            raise EntryTooLargeError(largest, entry_size_max)
    return batch, size


def password(value: object) -> bytes:
    """Return a ledger's password. Errors never repeat it."""
    data = payload(value, "password")
    if len(data) > PASSWORD_SIZE_MAX:
        why = f"has over {PASSWORD_SIZE_MAX} bytes"
        raise ArgumentValueError("password", f"{len(data)} bytes", why)
    return data


def custom_metadata(value: object) -> dict[str, bytes]:
    """Return the custom metadata of a ledger; ``None`` means none."""
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
    """Return a text of at most ``size_max`` bytes."""
    found = _text(name, value, "give a text")
    if text_size(name, found) > size_max:
        raise ArgumentValueError(name, _shown(found), f"is over {size_max} bytes")
    return found


def text_size(name: str, value: str) -> int:
    """Return the size of a text in bytes."""
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        raise ArgumentValueError(name, ascii(value)[:TEXT_SHOWN_MAX], str(error.reason)) from None


def bookie_id(value: object) -> str:
    """Return the id of a bookie.

    Raises:
        InvalidOptionError: no bookie can have it.
    """
    found = _text("bookie_id", value, "give a text: `zbk bookie ls` lists them")
    check_bookie_id(found)
    return found


def log_name(value: object) -> str:
    """Return the name of a log.

    Raises:
        InvalidOptionError: no log can have it.
    """
    found = _text("name", value, "give the log's name, a text")
    log_path(found)
    return found


def data_set_name(value: object) -> str:
    """Return the name of a data set. Raises as ``log_name``."""
    found = _text("name", value, "give the data set's name, a text")
    data_set_path(found)
    return found


def load_id(value: object) -> str:
    """Return the id of a load; "" is none."""
    found = _text("load_id", value, "give a text, from new_load_id")
    if found and _LOAD_ID.fullmatch(found) is None:
        why = "is not the id of a load: new_load_id returns one"
        raise ArgumentValueError("load_id", _shown(found), why)
    return found


# ------------------------------------------------------------------ objects


def member(kind: type[KindT], name: str, value: object) -> KindT:
    """Return a member of an enumeration, which may be given by its name."""
    known = ", ".join(kind)
    found = _text(name, value, f"give one of {known}")
    if found not in list(kind):
        raise ArgumentValueError(name, _shown(found), f"is none of {known}")
    return kind(found)


def instance(name: str, value: object, kind: type[InstanceT]) -> InstanceT:
    """Return a value of a class."""
    if not isinstance(value, kind):
        raise _wrong_type(name, value, f"give a {kind.__name__}")
    return value


def tracing(value: TracerProvider | bool) -> TracerProvider | bool:
    """Return a flag, or a tracer provider of OpenTelemetry."""
    if isinstance(value, bool) or callable(getattr(value, "get_tracer", None)):
        return value
    raise _wrong_type("tracing", value, "give True, False or a tracer provider")


def instances(name: str, values: object, kind: type[InstanceT]) -> list[InstanceT]:
    """Return a list of instances of a class, from any iterable."""
    if not isinstance(values, Iterable):
        raise _wrong_type(name, values, f"give a list of {kind.__name__}")
    return [instance(name, value, kind) for value in values]


def struct(name: str, value: object, kind: type[StructT]) -> StructT:
    """Return a struct whose fields have the declared types."""
    found = instance(name, value, kind)
    try:
        convert(msgspec.structs.asdict(found), kind)
    except msgspec.ValidationError as error:
        raise ArgumentTypeError(name, _shown(found), str(error)) from None
    return found


def position(name: str, value: object) -> LogPosition:
    """Return a position in a log."""
    if not isinstance(value, LogPosition):
        why = "give a LogPosition; LogPosition.parse reads a text such as 7:42"
        raise _wrong_type(name, value, why)
    ledger_id(value.ledger_id, f"{name}.ledger_id")
    entry_id(f"{name}.entry_id", value.entry_id)
    return value


def optional_position(name: str, value: object) -> LogPosition | None:
    """Return a position in a log, or none. Raises as ``position``."""
    return None if value is None else position(name, value)


def namespace(value: object) -> str:
    """Return the path of a namespace, or ""."""
    path = _text("namespace", value, 'give a path such as "orders/eu"')
    if path:
        try:
            check_namespace(path)
        except InvalidOptionError as error:
            raise ArgumentValueError("namespace", path, error.reason) from None
    return path


def grants(value: object) -> Grants:
    """Return grants from a mapping of names of principals to names of rights, or none."""
    why = 'give rights by principal, such as {"bob": ["read"]}'
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong_type("grants", value, why)
    for name, names in value.items():
        is_list = isinstance(names, Iterable) and not isinstance(names, str | bytes)
        if not (isinstance(name, str) and is_list):
            raise _wrong_type("grants", value, why)
    try:
        return grants_of({name: [str(one) for one in names] for name, names in value.items()})
    except InvalidOptionError as error:
        raise ArgumentValueError(f"grants: {error.name}", error.value, error.reason) from None


def grantee(value: object) -> str:
    """Return the name of a principal, or ``*``."""
    name = _text("principal", value, "give the name of a principal, or *")
    try:
        return check_grantee(name)
    except InvalidOptionError as error:
        raise ArgumentValueError("principal", name[:65], error.reason) from None


def rights(value: object) -> frozenset[Right]:
    """Return rights, from any iterable of them or of their names."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise _wrong_type("rights", value, 'give a list of rights, such as ["read"]')
    names = [_text("rights", one, f"give names of {', '.join(Right)}") for one in value]
    try:
        found = rights_named(names)
    except InvalidOptionError as error:
        raise ArgumentValueError("rights", error.value, error.reason) from None
    if not found:
        raise ArgumentValueError("rights", "", "give one right at least")
    return found


def function(name: str, value: Any) -> Any:  # noqa: ANN401 - its caller knows its type
    """Return a callable."""
    if not callable(value):
        raise _wrong_type(name, value, "give a function")
    return value


def _text(name: str, value: object, why: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(name, value, why)
    return value


def _wrong_type(name: str, value: object, why: str) -> ZbkError:
    return ArgumentTypeError(name, f"{_shown(value)} ({type(value).__name__})", why)


def _shown(value: object) -> str:
    try:
        told = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - a very large integer, or a faulty ``__repr__``
        told = type(value).__name__
    return told if len(told) <= TEXT_SHOWN_MAX else told[:TEXT_SHOWN_MAX] + "..."
