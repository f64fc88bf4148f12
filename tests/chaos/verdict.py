"""How a campaign ends: promises kept, a promise broken, or a harness that could not tell.

A *trouble* is the harness's own: a process that it could not start in time on this machine, or a
call of its own that timed out while a control ledger could not be written either. It is no
violation, and no proof that the promises were kept.
"""

from enum import IntEnum


class Verdict(IntEnum):
    """The verdict; its value is the exit code."""

    KEPT = 0
    VIOLATED = 1
    HARNESS_FAILED = 3  # 2 is a wrong command line


def verdict_of(violations: list[str], troubles: list[str]) -> Verdict:
    """Return the verdict: a violation outweighs the harness's own trouble.

    >>> verdict_of([], ["bookie 1 runs and is not registered after 30 s"]).name
    'HARNESS_FAILED'
    """
    if violations:
        return Verdict.VIOLATED
    return Verdict.HARNESS_FAILED if troubles else Verdict.KEPT
