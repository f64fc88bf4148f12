"""RangeRead against an oracle over random replicas."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.quorums import quorums
from tests.support.recovery_world import LEDGER_ID, payload
from tests.support.replica_reads import Replicas, make_read, run_read
from zbk.errors import NoSuchEntryError, NoSuchLedgerError
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.read.range_read import Delivered, ReadFailed, ReadStarted


@given(
    quorum=quorums,
    first=st.integers(0, 10),
    count=st.integers(1, 25),
    seed=st.integers(0, 2**32),
    health=st.sampled_from([0.3, 0.6, 0.8, 0.95, 1.0]),
    is_ordered=st.booleans(),
    slowness=st.sampled_from([0.0, 0.3, 0.8]),
)
@settings(max_examples=400, deadline=None)
def test_a_read_gives_all_before_the_first_entry_without_a_good_replica(
    quorum: Quorum,
    first: int,
    count: int,
    seed: int,
    health: float,
    is_ordered: bool,
    slowness: float,
) -> None:
    ids = range(first, first + count)
    replicas = Replicas(quorum, ids, seed, health)
    order = list(range(quorum.ensemble_size))
    if not is_ordered:
        replicas.random.shuffle(order)

    delivered, end, request_count = run_read(
        make_read(quorum, ids[0], ids[-1], slot_order=order, speculative_ms=200),
        replicas,
        slowness,
    )

    outcomes = {e: [replicas.outcome(slot, e) for slot in quorum.write_set(e)] for e in ids}
    bad_ids = [e for e in ids if None not in outcomes[e]]
    good_ids = range(first, bad_ids[0] if bad_ids else first + count)
    assert delivered == [(e, payload(e)) for e in good_ids]
    asked_count_max = 2 * count * quorum.write_size + quorum.ensemble_size * (count + 1)
    assert request_count <= asked_count_max * (quorum.write_size if slowness else 1)
    if not bad_ids:
        assert isinstance(end, Delivered)
        assert end.is_last
        return
    assert isinstance(end, ReadFailed)
    real = {o for o in outcomes[bad_ids[0]] if o not in (NoSuchEntryError, NoSuchLedgerError)}
    assert type(end.error) in (real or {NoSuchEntryError})
    if not real:
        assert end.error.args == (LEDGER_ID, bad_ids[0])


@given(quorum=quorums, count=st.integers(1, 25), seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_read_of_one_slot_gives_what_that_slot_has(
    quorum: Quorum, count: int, seed: int, data: st.DataObject
) -> None:
    slot = data.draw(st.integers(0, quorum.ensemble_size - 1))
    replicas = Replicas(quorum, range(count), seed, 0.9)
    held = list(quorum.entry_ids(slot, 0, count - 1))
    read = make_read(quorum, 0, count - 1, only_slot=slot)
    if not held:
        assert read.is_over, "there is nothing to read"
        assert read.handle(ReadStarted(), 0) == []
        return

    delivered, end, _ = run_read(read, replicas)

    bad_ids = [e for e in held if replicas.outcome(slot, e) is not None]
    good_ids = [e for e in held if not bad_ids or e < bad_ids[0]]
    assert delivered == [(e, payload(e)) for e in good_ids]
    assert isinstance(end, ReadFailed) == bool(bad_ids)
