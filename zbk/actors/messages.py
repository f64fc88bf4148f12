"""Messages and ports that several rooms of a bookie's actors share.

Other messages are defined in the module of the actor that receives them. The messages between the
storage actor and the actors that maintain the disk are here: ``upkeep`` does not import ``serve``.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec
import pykka

from zbk.config import BookieConfig
from zbk.errors import CorruptRecordError, OutOfDescriptorsError
from zbk.storage.checkpoint import Checkpoint

MessageT_contra = TypeVar("MessageT_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


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


class StorageQuestion(Protocol[T_co]):
    """A short question about storage, or a change of it: a struct, defined beside its subject."""

    def answer(self) -> T_co:
        """Return the answer. Only in the thread that owns entries and index."""
        ...


class Answered(msgspec.Struct, frozen=True):
    """To an actor that maintains the disk: what it waits for has come.

    ``wait_no`` is the number in the message that asked. The value is the answer to a question, an
    error that ``AskStorage`` names, or ``None``.
    """

    wait_no: int
    value: object = None


def reply(reply_to: Sink[Answered] | None, answer: Answered) -> None:
    """Send an answer, if one is wanted."""
    if reply_to is None:
        return
    with suppress(pykka.ActorDeadError):  # the bookie stops
        reply_to.tell(answer)


class AskStorage(msgspec.Struct, frozen=True):
    """To the storage actor: answer a question in the thread that owns entries and index.

    ``CorruptRecordError`` and ``OutOfDescriptorsError`` are answers, too. Without ``reply_to``
    there is no answer.
    """

    question: StorageQuestion[object]
    reply_to: Sink[Answered] | None = None
    wait_no: int = 0

    def answer(self) -> None:
        """Answer. Only in the thread that owns entries and index."""
        try:
            value = self.question.answer()
        except (CorruptRecordError, OutOfDescriptorsError) as error:
            if self.reply_to is None:
                raise
            value = error
        reply(self.reply_to, Answered(self.wait_no, value))


class EndCheckpoint(msgspec.Struct, frozen=True):
    """To the storage actor: the steps of this checkpoint are done, so what it synced is durable."""

    checkpoint: Checkpoint
    reply_to: Sink[Answered] | None = None


class ForgetLedgers(msgspec.Struct, frozen=True):
    """To the storage actor: refuse these ledgers from now on.

    The answer is whether storage could remember all of them.
    """

    ledger_ids: Sequence[int]
    reply_to: Sink[Answered]
    wait_no: int


class OptionsChanged(msgspec.Struct, frozen=True):
    """To an actor that maintains the disk: live options of the bookie have other values."""

    config: BookieConfig


class CheckpointEnded(msgspec.Struct, frozen=True):
    """To an actor that asked for a checkpoint: it has ended."""

    wait_no: int


class AskCheckpoint(msgspec.Struct, frozen=True):
    """To the checkpoint actor: run a checkpoint that begins from now on, due or not."""

    reply_to: Sink[CheckpointEnded]
    wait_no: int
