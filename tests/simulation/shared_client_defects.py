"""Wrong methods of clients with several ledgers, which ``tests.simulation.defects`` puts in."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from zbk.client.deadlines import Deadlines
from zbk.client.write.writer_actor import WriterActor
from zbk.client.write.writer_body import WriterBody
from zbk.errors import BookieUnavailableError
from zbk.system.direct_inbox import TurnQueue
from zbk.transport import bundles
from zbk.transport.bundles import BundleLimits, Part
from zbk.transport.frames import Frame

_answer_messages = bundles.answer_messages
_groups = bundles._groups


def takes_the_id_of_the_next(group: Sequence[Part]) -> Iterator[list[Frame]]:
    """N1: each answer has the request id of its neighbor."""
    ids = [answer.request_id for answer, _frames in group]
    return _answer_messages(
        [
            (msgspec.structs.replace(answer, request_id=request_id), frames)
            for (answer, frames), request_id in zip(group, [*ids[1:], ids[0]], strict=True)
        ]
    )


def drops_what_does_not_fit(parts: Iterable[Part], limits: BundleLimits) -> Iterator[list[Part]]:
    """N2: the part that meets a full message is in none."""
    first, *others = _groups(parts, limits)
    yield first
    for group in others:
        if len(group) > 1:
            yield group[1:]


def ends_all(self: WriterActor, writer: WriterBody, error: Exception) -> None:
    """N3: a failure ends every writer of the actor."""
    del writer
    for one in list(self._writers):
        one.end(BookieUnavailableError("(all)", f"the writer failed: {error!r}"))


def forgets_what_has_moved(self: Deadlines[Any], now_ms: int) -> list[Any]:
    """N4: a deadline that has moved to a later time is lost when the earlier one comes."""
    due = []
    for item, due_ms in list(self._due_ms.items()):
        if self._entry_ms.get(item, now_ms + 1) <= now_ms:
            del self._due_ms[item]
            if due_ms <= now_ms:
                due.append(item)
    self._heap.clear()
    self._entry_ms.clear()
    return due


def is_always_free(_self: TurnQueue) -> bool:
    """N5: a turn is lent while the owner has it."""
    return True


def ends_if_taken(self: TurnQueue) -> None:
    """N5, too: what was not taken cannot be given back."""
    if self._turn.locked():
        self._turn.release()
