"""The id of this process, without a system call for each question.

``os.getpid`` asks the kernel each time: a twentieth of the price of an append, for a number that
only a fork changes. Python reports each fork of its own.
"""

import os

_id = os.getpid()


def _read() -> None:
    global _id  # noqa: PLW0603 - one for the process
    _id = os.getpid()


os.register_at_fork(after_in_child=_read)


def process_id() -> int:
    """Return ``os.getpid()``.

    >>> process_id() == os.getpid()
    True
    """
    return _id
