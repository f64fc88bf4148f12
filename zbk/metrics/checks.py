"""Checks of a process's health, and the pages ``/livez`` and ``/readyz`` made of them.

A process is *alive* while it can go on without a restart, and *ready* while it can do its work. A
check that is only for information never makes a process unready: a read-only bookie still serves.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec


class Check(msgspec.Struct, frozen=True):
    """The result of one check."""

    name: str
    is_ok: bool
    detail: str = ""
    is_required: bool = True


CheckSource: TypeAlias = Callable[[], Sequence[Check]]
"""Returns the checks of one part of a process. It reads plain values and never waits."""


def is_passed(checks: Sequence[Check]) -> bool:
    """Return whether no required check has failed."""
    return all(check.is_ok or not check.is_required for check in checks)


def page(title: str, checks: Sequence[Check], *, is_verbose: bool) -> str:
    """Return the text of a health page; one that has failed shows its checks in any case.

    >>> print(page("readyz", [Check("registered", False, "IN_DOUBT")], is_verbose=True))
    [-]registered failed: IN_DOUBT
    readyz check failed
    <BLANKLINE>
    """
    is_ok = is_passed(checks)
    if is_ok and not is_verbose:
        return "ok\n"
    lines = [_line(check) for check in checks]
    return "\n".join([*lines, f"{title} check {'passed' if is_ok else 'failed'}", ""])


def _line(check: Check) -> str:
    detail = f": {check.detail}" if check.detail else ""
    if check.is_ok:
        return f"[+]{check.name} ok{detail}"
    return f"[{'-' if check.is_required else 'i'}]{check.name} failed{detail}"
