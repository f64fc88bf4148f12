"""WriterCore: what goes into a batch, how much is on its way, and how a writer ends.

The stories are in ``test_writer_golden``.
"""

from typing import Any

from tests.support.entry_decoding import decode_entry
from tests.support.writer_cores import DIGEST, LEDGER_ID, make_writer, writer_up
from zbk.errors import BusyError, ClientClosedError, LedgerFencedError
from zbk.protocol.entry.entry import entry_size
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import (
    Abandoned,
    Acked,
    AddAnswered,
    AddFailed,
    Append,
    Appends,
    CloseFailed,
    CloseRequested,
    Effect,
    Failed,
    SendAdd,
    SyncFailedFor,
    SyncRequested,
)

# ------------------------------------------------------------------ what goes into batches


def batches(effects: list[Effect], slot: int = 0) -> list[list[int]]:
    return [list(e.batch.entry_ids) for e in effects if isinstance(e, SendAdd) and e.slot == slot]


def only(effects: list[Effect], kind: type[Any]) -> Any:  # noqa: ANN401 - an effect of that kind
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


def test_every_slot_gets_the_same_batch_object() -> None:
    core = writer_up(Quorum(3, 3, 2))

    sent = core.handle(Append("t", [b"one", b"two"]), 0)

    assert [effect.slot for effect in sent if isinstance(effect, SendAdd)] == [0, 1, 2]
    assert len({id(effect.batch) for effect in sent if isinstance(effect, SendAdd)}) == 1


def test_a_batch_holds_the_entries_as_they_will_be_read() -> None:
    core = writer_up(Quorum(1, 1, 1))
    for payload in (b"first", b"second"):
        effects = core.handle(Append("t", [payload]), 0)
        core.handle(AddAnswered(0, only(effects, SendAdd).batch.first_entry_id, 1, -1), 0)

    batch = only(core.handle(Append("t", [b"third", b""]), 0), SendAdd).batch

    batch.verify()
    batch.validate()
    entry, offset = decode_entry(batch.body, 0, LEDGER_ID, 2, DigestType.XXH3, DIGEST)
    assert (entry.lac, entry.length, bytes(entry.payload)) == (1, 16, b"third")
    entry, end = decode_entry(batch.body, offset, LEDGER_ID, 3, DigestType.XXH3, DIGEST)
    assert (entry.lac, entry.length, bytes(entry.payload)) == (1, 16, b"")
    assert end == batch.size == sum(batch.sizes)


def test_the_window_counts_what_the_ack_quorum_has_not_and_the_backlog_the_slowest_slot() -> None:
    size = entry_size(100, DigestType.XXH3)
    core = writer_up(
        Quorum(3, 3, 2), window_size=2 * size, backlog_size=3 * size, batch_size_max=size
    )
    payloads = [bytes(100)] * 6

    def ack(slot: int, first: int) -> list[list[int]]:
        return batches(core.handle(AddAnswered(slot, first, 1, -1), 0))

    assert batches(core.handle(Append("t", payloads), 0)) == [[0], [1]], "the window is full"
    assert not ack(0, 0)
    assert ack(1, 0) == [[2]], "an ack quorum makes room, though slot 2 has not answered"
    for first in (1, 2):
        assert not ack(0, first)
        assert not ack(1, first), "slot 2 has as much to answer as it may"
    assert core.path.backlog_size == 3 * size

    assert ack(2, 0) == [[3]]
    assert core.path.backlog_size == 3 * size


def test_a_backlog_that_is_smaller_than_the_window_is_as_large() -> None:
    size = entry_size(100, DigestType.XXH3)
    core = writer_up(Quorum(3, 3, 2), window_size=2 * size, backlog_size=size, batch_size_max=size)

    assert batches(core.handle(Append("t", [bytes(100)] * 5), 0)) == [[0], [1]]


def test_many_small_appends_that_waited_leave_in_one_batch() -> None:
    core = writer_up(Quorum(1, 1, 1), window_count=1)
    core.handle(Append("first", [b"x"]), 0)
    assert not core.handle(Appends([(f"t{i}", [b"x"]) for i in range(50)]), 0)

    effects = core.handle(AddAnswered(0, 0, 1, -1), 0)

    assert batches(effects) == [list(range(1, 51))]
    acked = core.handle(AddAnswered(0, 1, 1, -1), 0)
    assert only(acked, Acked).tickets == [(f"t{i}", i + 1, 1) for i in range(50)]


def test_memory_does_not_grow_while_nothing_is_answered() -> None:
    size = entry_size(1000, DigestType.XXH3)
    core = make_writer(Quorum(3, 3, 2), window_size=10 * size, batch_size_max=2 * size)

    for ticket in range(1000):
        core.handle(Append(ticket, [bytes(1000)]), 0)

    assert core.path.backlog_size <= 12 * size


def test_memory_does_not_grow_while_one_bookie_of_three_answers_nothing() -> None:
    size = entry_size(1000, DigestType.XXH3)
    core = writer_up(
        Quorum(3, 3, 2), window_size=2 * size, backlog_size=10 * size, batch_size_max=size
    )

    for ticket in range(100):
        for effect in core.handle(Append(ticket, [bytes(1000)]), 0):
            if isinstance(effect, SendAdd) and effect.slot < 2:
                core.handle(AddAnswered(effect.slot, effect.batch.first_entry_id, 1, -1), 0)

    assert core.path.backlog_size == 10 * size
    assert core.path.last_acked_id == 9


# ------------------------------------------------------------------ ends


def test_an_abandoned_writer_gives_every_ticket_back() -> None:
    core = writer_up(Quorum(3, 3, 2), LedgerType.VD_JOURNAL, window_count=1)
    core.handle(Append("pending", [b"x"]), 0)
    core.handle(Append("queued", [b"x"]), 0)
    core.handle(SyncRequested("sync"), 0)
    core.handle(CloseRequested("close", 1_000), 0)
    error = ClientClosedError()

    effects = core.handle(Abandoned(error), 0)

    assert effects == [
        Failed(["pending", "queued"], only(effects, Failed).error),
        SyncFailedFor("sync", error),
        CloseFailed("close", error),
    ]
    assert only(effects, Failed).error.outcome == "unknown"
    assert error.outcome == "failed"
    assert core.handle(Append("late", [b"x"]), 0) == [Failed(["late"], error)]


def test_one_sync_too_many_is_busy() -> None:
    core = writer_up(Quorum(3, 3, 2), LedgerType.VD_JOURNAL, sync_count_max=2)
    core.handle(Append("t", [b"x"]), 0)

    assert core.handle(SyncRequested(1), 0) == core.handle(SyncRequested(2), 0) == []

    assert isinstance(only(core.handle(SyncRequested(3), 0), SyncFailedFor).error, BusyError)


def test_a_part_of_an_append_may_be_acked_before_the_rest_fails() -> None:
    core = writer_up(Quorum(1, 1, 1), window_count=1, batch_count_max=2)
    core.handle(Append("t", [b"a", b"b", b"c"]), 0)
    assert not [e for e in core.handle(AddAnswered(0, 0, 1, -1), 0) if isinstance(e, Acked)]

    effects = core.handle(AddFailed(0, 2, LedgerFencedError(LEDGER_ID)), 0)

    assert only(effects, Failed).tickets == ["t"]
    assert core.path.last_acked_id == 1
