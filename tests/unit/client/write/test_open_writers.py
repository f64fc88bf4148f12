"""OpenWriters: news that come while the actor of a writer is being started."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.bookie_here import ONE, BookieHere
from zbk.client.write.open_writers import OpenWriters
from zbk.client.write.writer_actor import WriterActor


def test_bookies_may_change_while_the_first_writer_is_started(
    world: BookieHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[OpenWriters] = []
    told: list[str] = []
    init: Callable[..., None] = OpenWriters.__init__
    start = WriterActor.start

    def remember(self: OpenWriters, *args: Any) -> None:  # noqa: ANN401 - as the original
        init(self, *args)
        made.append(self)

    def start_late(*args: Any) -> Any:  # noqa: ANN401 - as the original
        made[0].writable_changed()  # another thread, that of the metadata, does this
        told.append("before")
        ref = start(*args)
        made[0].writable_changed()
        told.append("after")
        return ref

    monkeypatch.setattr(OpenWriters, "__init__", remember)
    monkeypatch.setattr(WriterActor, "start", start_late)

    with world.connect() as client, client.create_ledger(**ONE) as ledger:
        assert ledger.append(b"x", timeout=30) == 0

    assert told == ["before", "after"]
