"""MovedBatches against a twin that looks at every entry."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.quorums import quorums
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.batch_encoder import BatchEncoder
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.moved_batches import MovedBatches
from zbk.protocol.write.unsynced_total import UnsyncedTotal
from zbk.protocol.write.write_window import WriteBatch, WriteWindow

DIGEST = digest_function(DigestType.XXH3, b"", 7)


class Batches:
    """A window with batches that are acknowledged and not durable, and who has answered them."""

    def __init__(self, quorum: Quorum, counts: list[int]) -> None:
        self.quorum = quorum
        part = UnsyncedTotal(1 << 20).parts[0]
        self.window = WriteWindow(quorum.ensemble_size, WriterLimits(), part)
        self.moved = MovedBatches(quorum, self.window)
        self.ids: list[range] = []
        encoder = BatchEncoder(7, quorum, DigestType.XXH3, DIGEST)
        first = 0
        for count in counts:
            encoded = encoder.encode(first, -1, 0, [b"x"] * count)
            ids = range(first, first + count)
            self.window.add(WriteBatch(ids, encoded, [], 0))
            self.window.sent(range(quorum.ensemble_size), first)
            self.ids.append(ids)
            first += count
        self.window.acked_until(first - 1)

    def answer(self, slot: int, ids: range) -> None:
        part = self.window.batches[ids.start].encoded.parts[slot]
        if part is not None:
            self.window.answered(slot, part.first_entry_id)


@settings(deadline=None)
@given(
    quorum=quorums,
    counts=st.lists(st.integers(1, 5), max_size=5),
    data=st.data(),
)
def test_needed_is_what_the_staying_have_no_ack_quorum_of(
    quorum: Quorum, counts: list[int], data: st.DataObject
) -> None:
    world = Batches(quorum, counts)
    slots = st.sets(st.integers(0, quorum.ensemble_size - 1))
    answered = [data.draw(slots) for _ in world.ids]
    staying = data.draw(slots)
    for ids, by in zip(world.ids, answered, strict=True):
        for slot in by:
            world.answer(slot, ids)

    needed = world.moved.needed(staying)

    twin = [
        ids
        for ids, by in zip(world.ids, answered, strict=True)
        if any(len(by & staying & set(quorum.write_set(e))) < quorum.ack_size for e in ids)
    ]
    assert [one.entry_ids for one in needed] == twin
    leaving = set(range(quorum.ensemble_size)) - staying
    last = max((ids[-1] for ids in twin), default=-1)
    for slot, parts in world.moved.sent_first(needed, leaving).items():
        due = [e for e in range(last + 1) if quorum.holds(slot, e)]
        assert [e for part in parts for e in part.entry_ids] == due


def test_what_is_not_acknowledged_is_owed_and_not_needed() -> None:
    world = Batches(Quorum(3, 3, 2), [2])
    encoded = BatchEncoder(7, world.quorum, DigestType.XXH3, DIGEST).encode(2, -1, 0, [b"x"])
    world.window.add(WriteBatch(range(2, 3), encoded, [], 0))
    world.window.sent(range(3), 2)

    assert [one.entry_ids for one in world.moved.needed({0, 1})] == [range(2)]


def test_what_a_bookie_is_sent_again_counts_when_it_answers() -> None:
    world = Batches(Quorum(3, 3, 2), [2])
    for slot in range(3):
        world.answer(slot, range(2))
    assert world.moved.needed({0, 1}) == []

    world.window.owe_unsynced(0)
    (needed,) = world.moved.needed({0, 1})
    assert not world.moved.may_be_answered([needed], {1})
    assert world.moved.may_be_answered([needed], {0, 1})
    (first,) = world.window.up(0, 0)
    world.window.sent([0], first)
    assert world.moved.needed({0, 1}) == [needed]
    world.answer(0, range(2))

    assert world.moved.needed({0, 1}) == []
