"""The arguments that begin a load: checked, and the load that they make.

Pure functions of their arguments.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from zbk.client import arguments
from zbk.errors import InvalidOptionError
from zbk.protocol.dataset.dataset import (
    TEXT_SIZE_MAX,
    DataSet,
    Load,
    LoadKind,
    expiry_ms,
    new_load_id,
)

TTL_MS: Final = 24 * 3_600_000
"""The time after which any client may abort a load."""

TTL_MS_MAX: Final = 100 * 366 * 24 * 3_600_000
"""A century: the id of a load has twelve hexadecimal digits for the end of its time."""


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of ``DataSets.begin``."""

    kind: LoadKind
    who: str
    ttl_ms: int
    stream: str
    batch_id: int
    load_id: str

    def check(self) -> None:
        """Check the arguments.

        Raises:
            InvalidOptionError: no load can have them.
        """
        arguments.text("who", self.who, TEXT_SIZE_MAX)
        arguments.text("stream", self.stream, TEXT_SIZE_MAX)
        check_ttl_ms(self.ttl_ms)
        arguments.integer("batch_id", self.batch_id, -1, arguments.NUMBER_MAX)
        arguments.load_id(self.load_id)
        if bool(self.stream) != (self.batch_id >= 0):
            raise InvalidOptionError(
                "batch_id", self.batch_id, "a stream has a batch id, and nothing else"
            )
        if self.load_id and not self.stream:  # a late process could load it twice
            raise InvalidOptionError("load_id", self.load_id, "can be given for a micro-batch only")

    def load(
        self, data_set: DataSet, first_ledger_id: int, now_ms: int, new_id: Callable[[], str]
    ) -> Load:
        """Return a load into a data set; its ledgers have ids from ``first_ledger_id`` on."""
        load_id = self.load_id or new_load_id(now_ms + self.ttl_ms, new_id())
        return Load(
            load_id=load_id,
            data_set_id=data_set.data_set_id,
            kind=self.kind,
            base_version=data_set.current_version,
            first_ledger_id=first_ledger_id,
            started_ms=now_ms,
            expires_ms=expiry_ms(load_id),
            who=self.who,
            stream=self.stream,
            batch_id=self.batch_id,
        )


def check_ttl_ms(value: object) -> int:
    """Return the time that a load may take.

    Raises:
        InvalidOptionError: it is not a number of milliseconds, or exceeds the limit.
    """
    return arguments.integer("ttl_ms", value, 1, TTL_MS_MAX)
