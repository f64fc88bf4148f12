"""Messages and ports that several rooms of a bookie's actors share.

Other messages are defined in the module of the actor that receives them. Those for the storage
actor that maintenance sends are here: ``upkeep`` does not import ``serve``.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

import msgspec

MessageT_contra = TypeVar("MessageT_contra", contravariant=True)


class Sink(Protocol[MessageT_contra]):
    """The address of an actor: a pykka ref in a bookie, a list in a test."""

    def tell(self, message: MessageT_contra) -> None:
        """Deliver without waiting."""
        ...


class TickSource(Protocol):
    """Calls back at intervals, in any thread."""

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Start calling back."""
        ...

    def cancel(self, callback: Callable[[], None]) -> None:
        """Stop calling back."""
        ...


AskCheckpoint: TypeAlias = Callable[[Callable[[], None]], None]
"""Ask for a checkpoint; its argument is called when one that begins from now on has ended, in any
thread."""


class RunInStorage(msgspec.Struct, frozen=True):
    """To the storage actor: run a short step in the thread that owns entries and index.

    This message carries a closure. The steps of checkpoints, garbage collection and scrubbing are
    some fifteen different questions about storage; as messages with data, each would need an answer
    and a handler that contain nothing but the same call.
    """

    step: Callable[[], None]


class ForgetLedgers(msgspec.Struct, frozen=True):
    """To the storage actor: refuse these ledgers from now on.

    ``done`` is told, in the storage actor's thread, whether storage could remember all of them.
    """

    ledger_ids: Sequence[int]
    done: Callable[[bool], None]
