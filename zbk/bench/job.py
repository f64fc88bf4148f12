"""The load of another process, and its first answer."""

from typing import Final

import msgspec

from zbk.bench.load import WriteLoad
from zbk.config import ClientConfig

OPEN_TIMEOUT_S: Final = 60.0
"""Until such a process has opened its ledgers."""


class Job(msgspec.Struct, frozen=True):
    """The load of a process."""

    load: WriteLoad
    config: ClientConfig


class LedgersOpen(msgspec.Struct, frozen=True):
    """The process has opened its ledgers."""
