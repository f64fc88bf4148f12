"""Requests of a scrub to its caller: time for the bytes it read, and looks by the index's owner."""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import msgspec

from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile


class Paid(msgspec.Struct, frozen=True):
    """So many bytes were read: go on when the rate allows it."""

    size: int


class Pause(msgspec.Struct, frozen=True):
    """Go on after this time."""

    wait_ms: int


class AskOwner(msgspec.Struct, frozen=True):
    """Call this in the thread that owns the index, and send what it returns."""

    question: Callable[[], Any]


ScrubStep: TypeAlias = Paid | Pause | AskOwner | DamagedFile | DamagedEntries

Scrubbing: TypeAlias = Generator[ScrubStep, Any, None]
"""Steps, one after the other; each but ``AskOwner`` is answered with nothing."""
