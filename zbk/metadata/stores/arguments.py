"""Checks of arguments that all bodies of the port share, so that they refuse the same ones.

A path is ``/`` or ``/a/b``: absolute, no empty component, no ``.`` or ``..``, no control
characters, no slash at its end. ZooKeeper refuses other paths too, each client in its own way.

Pure functions; any thread.
"""

from collections.abc import Sequence
from typing import Final

from zbk.errors import InvalidOptionError
from zbk.metadata.stores.store import Check, Create, Delete, Operation, SetValue

VALUE_SIZE_MAX: Final = 1_000_000
"""Bytes of one value, and of all values and paths of one ``multi``.

ZooKeeper drops the connection of a client whose request is over 1 MiB (``jute.maxbuffer``); the
rest is room for paths and headers.
"""

PATH_SIZE_MAX: Final = 1_024
OPERATION_COUNT_MAX: Final = 256
"""Operations of one ``multi``."""

_OPERATION_OVERHEAD_SIZE = 128  # bytes of headers and access rights beside each path and value


def check_path(path: str) -> None:
    """Check that a path is well-formed.

    Raises:
        InvalidOptionError: it is not.
    """
    if path == "/":
        return
    if not path.startswith("/"):
        raise InvalidOptionError("path", path, "must start with /")
    if len(path.encode(errors="replace")) > PATH_SIZE_MAX:
        raise InvalidOptionError("path", path[:40] + "...", f"is over {PATH_SIZE_MAX} bytes")
    for name in path[1:].split("/"):
        if name in ("", ".", ".."):
            raise InvalidOptionError("path", path, f"has the component {name!r}")
    if not path.isprintable():
        raise InvalidOptionError("path", path, "has characters that cannot be printed")


def check_change(path: str) -> None:
    """Check that a path may be created or removed: any but the root.

    Raises:
        InvalidOptionError: it is malformed, or the root.
    """
    check_path(path)
    if path == "/":
        raise InvalidOptionError("path", path, "the root stays")


def check_value(value: bytes) -> None:
    """Check the size of a value.

    Raises:
        InvalidOptionError: it is too large.
    """
    if len(value) > VALUE_SIZE_MAX:
        raise InvalidOptionError("value", len(value), f"is over {VALUE_SIZE_MAX} bytes")


def check_operations(operations: Sequence[Operation]) -> None:
    """Check the operations of a ``multi``.

    Raises:
        InvalidOptionError: a path or value is malformed, or together they are too large.
    """
    if len(operations) > OPERATION_COUNT_MAX:
        raise InvalidOptionError("multi", len(operations), f"over {OPERATION_COUNT_MAX} operations")
    size = 0
    for operation in operations:
        match operation:
            case Create():
                check_change(operation.path)
                size += len(operation.value)
            case SetValue():
                check_path(operation.path)
                size += len(operation.value)
            case Delete():
                check_change(operation.path)
            case Check():
                check_path(operation.path)
        size += len(operation.path) + _OPERATION_OVERHEAD_SIZE
    if size > VALUE_SIZE_MAX:
        raise InvalidOptionError("multi", size, f"is over {VALUE_SIZE_MAX} bytes")


def parent_of(path: str) -> str:
    """Return the path of a node's parent.

    >>> parent_of("/a/b"), parent_of("/a")
    ('/a', '/')
    """
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    """Return a node's own name.

    >>> name_of("/a/b")
    'b'
    """
    return path.rpartition("/")[2]
