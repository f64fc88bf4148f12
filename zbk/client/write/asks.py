"""What the application asks of one ledger's writer, beside appends."""

from concurrent.futures import Future
from typing import Any, TypeAlias

import msgspec


class AskSync(msgspec.Struct, frozen=True):
    """The application calls ``sync()``."""

    future: "Future[int]"


class AskDurable(msgspec.Struct, frozen=True):
    """The application waits until entries up to ``entry_id`` are durable."""

    future: "Future[Any]"
    entry_id: int


class AskClose(msgspec.Struct, frozen=True):
    """The application calls ``close()``. With the same future again it changes its terms."""

    future: "Future[int]"
    wait_ms: int  # until all that is acknowledged is durable
    accepts_loss: bool


Ask: TypeAlias = AskSync | AskDurable | AskClose
