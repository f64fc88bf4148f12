"""File descriptors: how many this process may have, and what it means that there is none.

Want of a descriptor (``EMFILE`` of the process, ``ENFILE`` of the machine) says nothing about any
file: what was not opened is as it was, and may be opened later.
"""

import errno
import os
import resource
from contextlib import suppress
from typing import Final

UNLIMITED_COUNT: Final = 1 << 20
"""What no limit counts as."""


def descriptor_limit() -> int:
    """Return how many descriptors this process may have: the soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED_COUNT if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, where that is allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def has_descriptors(count: int) -> bool:
    """Return whether so many more files may be opened now.

    To be asked ahead of a library that ends the process where it finds none.
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
    """Return whether a file was not opened only because too many are open."""
    return error.errno in (errno.EMFILE, errno.ENFILE)
