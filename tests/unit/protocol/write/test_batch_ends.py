"""BatchEnds: the LAC moves to ends of batches, with the length there."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.write.batch_ends import BatchEnds


@given(
    batches=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), max_size=10),
    durable_ids=st.lists(st.integers(-1, 30), max_size=10),
)
def test_the_lac_is_the_last_end_that_is_durable(
    batches: list[tuple[int, int]], durable_ids: list[int]
) -> None:
    ends = BatchEnds()
    last, length = -1, 0
    known = [(last, length)]
    for count, size in batches:
        last, length = last + count, length + size
        ends.acked(last, length, sent_ms=last)
        known.append((last, length))

    for index, durable_id in enumerate(durable_ids):
        best = max(
            known_end for known_end in known if known_end[0] <= max(durable_ids[: index + 1])
        )
        has_moved = best[0] > ends.lac
        assert ends.advance(durable_id) == has_moved
        assert (ends.lac, ends.length) == best
        assert len(ends.beyond) == sum(end > ends.lac for end, _length in known)
        assert ends.unsynced == unsynced_of(known, *best)


def unsynced_of(
    known: list[tuple[int, int]], lac: int, length_at_lac: int
) -> tuple[int, int] | None:
    """Return the bytes beyond the LAC, and the time of the first batch there: its last id."""
    beyond = [(end, length) for end, length in known if end > lac]
    return (beyond[-1][1] - length_at_lac, beyond[0][0]) if beyond else None
