"""Core dumps: a process that has keys leaves none, because its memory is in them."""

import resource

_LIMIT = 1
"""In bytes. Linux writes no core file that small, and at exactly 1 it starts no handler of dumps
either; at 0 it would (``core(5)``)."""


def forbid_core_dumps() -> None:
    """Forbid core dumps of this process, and of processes that it starts."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = min(_LIMIT, hard) if hard != resource.RLIM_INFINITY else _LIMIT
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
