"""The places of a stripe against a twin that looks at every entry."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.ledger.stripe import Stripe, stripes_of

STRIPES = [
    Stripe(size, write_size, slot)
    for size in range(2, 7)
    for write_size in range(1, size)
    for slot in range(size)
]


def due(stripe: Stripe, end: int) -> list[int]:
    """Return the due ids below ``end``, as ``Quorum`` has them."""
    quorum = Quorum(stripe.ensemble_size, stripe.write_size, 1)
    return [entry_id for entry_id in range(end) if quorum.holds(stripe.slot, entry_id)]


@pytest.mark.parametrize("stripe", STRIPES)
def test_places_number_the_due_entries_in_order(stripe: Stripe) -> None:
    ids = due(stripe, 60)

    assert [stripe.entry_id(place) for place in range(len(ids))] == ids
    for entry_id in range(50):
        assert stripe.place(entry_id) == sum(one < entry_id for one in ids)
        assert stripe.reach(entry_id) == min(one for one in ids if one > entry_id) - 1
    assert list(stripe.residues()) == due(stripe, stripe.ensemble_size)


@given(st.sampled_from(STRIPES), st.integers(0, 2**62))
def test_places_are_right_for_large_ids(stripe: Stripe, entry_id: int) -> None:
    place = stripe.place(entry_id)

    next_id = stripe.entry_id(place)

    assert entry_id <= next_id < entry_id + stripe.ensemble_size
    assert stripe.place(next_id) == place
    assert stripe.place(next_id + 1) == place + 1


@given(st.sampled_from(STRIPES), st.integers(0, 20), st.integers(1, 20), st.data())
def test_a_run_has_all_that_is_due_and_nothing_else(
    stripe: Stripe, first: int, count: int, data: st.DataObject
) -> None:
    run = [stripe.entry_id(place) for place in range(first, first + count)]
    assert stripe.is_run(run)

    changed = data.draw(st.lists(st.integers(0, 120), min_size=1, unique=True).map(sorted))

    assert stripe.is_run(changed) == (
        changed == [one for one in due(stripe, 121) if changed[0] <= one <= changed[-1]]
    )


def test_a_ledger_that_is_not_striped_has_no_stripes() -> None:
    assert stripes_of(Quorum(3, 3, 2)) == (None, None, None)
    assert stripes_of(Quorum(2, 1, 1)) == (Stripe(2, 1, 0), Stripe(2, 1, 1))


@pytest.mark.parametrize("fields", [[3, 3, 0], [3, 2, 3], [0, 0, 0], [65, 2, 0], [3, 2, -1], [3]])
def test_an_impossible_stripe_on_the_wire_is_malformed(fields: list[int]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=Stripe)
