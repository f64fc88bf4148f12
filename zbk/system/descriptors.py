"""File descriptors: the limit of this process, and the errors when none is left.

A lack of descriptors (``EMFILE`` of the process, ``ENFILE`` of the machine) says nothing about any
file: the file is unchanged, and can be opened later.
"""

import errno
import os
import resource
from contextlib import suppress
from typing import Final

UNLIMITED_COUNT: Final = 1 << 20
"""The value of no limit."""


def descriptor_limit() -> int:
    """Return the number of descriptors that this process may have: the soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED_COUNT if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, if that is allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def has_descriptors(count: int) -> bool:
    """Return whether ``count`` more files can be opened now.

    For use before a library that ends the process if it finds no descriptor.
    """
    found: list[int] = []
    try:
        found.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        while len(found) < count:
            found.append(os.dup(found[0]))
    except OSError as error:
        if not is_no_descriptor(error):
            raise
        return False
    else:
        return True
    finally:
        for fd in found:
            os.close(fd)


def is_no_descriptor(error: OSError) -> bool:
    """Return whether an open failed only because too many files are open."""
    return error.errno in (errno.EMFILE, errno.ENFILE)
