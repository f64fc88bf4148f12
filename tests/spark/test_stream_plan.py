"""What of a log goes into a micro-batch, and into which task: without Spark, without a cluster."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import StringType, StructField, StructType

import zbk
from pyspark_zbk.log_options import (
    BEFORE_ALL,
    EARLIEST,
    LATEST,
    log_options,
    offset_of,
    position_of,
)
from pyspark_zbk.log_plan import ENTRY_WEIGHT, Limits, limited, partitions, ranges
from pyspark_zbk.log_rows import LOG_SCHEMA, EntryRange, check_columns, rows_of
from pyspark_zbk.options import Options
from pyspark_zbk.schemas import arrow_schema, chosen
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.read_batch import decode_entries
from zbk.protocol.entry.words import DigestType

At = zbk.LogPosition


class Sizes:
    """The sizes of a log's entries, by ledger: what a cluster would tell."""

    def __init__(self, sizes: dict[int, list[int]]) -> None:
        self.sizes = sizes

    def last_of(self, ledger_id: int) -> int:
        return len(self.sizes[ledger_id]) - 1

    def length_at(self, ledger_id: int, entry_id: int) -> int:
        return sum(self.sizes[ledger_id][: entry_id + 1])

    def entries(self, start: At, end: At) -> list[tuple[At, int]]:
        """Return all entries between two positions, with their sizes: the slow way."""
        every = [
            (At(ledger_id, entry_id), size)
            for ledger_id, sizes in self.sizes.items()
            for entry_id, size in enumerate(sizes)
        ]
        return [(at, size) for at, size in every if start <= at < end]


logs = st.lists(
    st.lists(st.integers(min_value=0, max_value=20), max_size=12), min_size=1, max_size=4
).map(lambda ledgers: Sizes({3 * i + 2: sizes for i, sizes in enumerate(ledgers)}))


def head_of(log: Sizes) -> At:
    last = max(log.sizes)
    return At(last, len(log.sizes[last]))


def in_ranges(found: list[EntryRange]) -> list[At]:
    return [At(r.ledger_id, i) for r in found for i in range(r.first, r.last + 1)]


@given(logs, st.data())
def test_ranges_hold_what_lies_between_two_positions_and_nothing_else(
    log: Sizes, data: st.DataObject
) -> None:
    places = [at for at, _ in log.entries(BEFORE_ALL, head_of(log))] + [head_of(log)]
    start, end = data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))
    if end < start:
        start, end = end, start
    found = list(ranges(log.sizes, start, end, log))
    assert in_ranges(found) == [at for at, _ in log.entries(start, end)]


@given(
    logs,
    st.none() | st.integers(min_value=1, max_value=15),
    st.none() | st.integers(min_value=1, max_value=60),
)
@example(log=Sizes({2: [2], 5: [0]}), entry_count=None, size=1)
def test_batches_keep_their_limits_and_together_hold_each_entry_once(
    log: Sizes, entry_count: int | None, size: int | None
) -> None:
    head = head_of(log)
    begin = At(min(log.sizes), 0)
    limits = Limits(entry_count=entry_count, size=size)
    seen: list[At] = []
    at = begin
    while at < head:
        end = limited(list(log.sizes), at, head, limits, log)
        assert at < end <= head
        batch = log.entries(at, end)
        seen += [place for place, _ in batch]
        assert len(batch) <= (entry_count or len(batch))
        total = sum(taken for _, taken in batch)
        assert size is None or total <= size or len(batch) == 1
        if end < head:  # it was a limit that ended it
            (_, following), *_ = log.entries(end, head) or [(head, 0)]
            is_count_full = entry_count is not None and len(batch) == entry_count
            assert is_count_full or (size is not None and total + following > size)
        at = end
    assert seen == [place for place, _ in log.entries(begin, head)]


@given(logs, st.integers(min_value=1, max_value=15))
def test_no_batch_ends_behind_the_last_entry_of_a_ledger_that_has_a_successor(
    log: Sizes, entry_count: int
) -> None:
    """Else the ledger could not be truncated although all of it was read."""
    at, head = At(min(log.sizes), 0), head_of(log)
    while at < head:
        at = limited(list(log.sizes), at, head, Limits(entry_count=entry_count), log)
        assert at == head or at.entry_id <= log.last_of(at.ledger_id)


@given(logs, st.integers(min_value=1, max_value=3_000))
def test_partitions_hold_every_entry_once_and_in_order(log: Sizes, size_max: int) -> None:
    found = list(ranges(log.sizes, At(2, 0), head_of(log), log))
    groups = list(partitions(found, size_max, log))
    together = [one for group in groups for one in group]
    assert in_ranges(together) == in_ranges(found)
    assert all(groups)
    for group in groups:
        weights = [
            sum(log.sizes[r.ledger_id][r.first : r.last + 1]) + ENTRY_WEIGHT * len(r) for r in group
        ]
        # what is split is split by entries, which need not weigh the same
        assert len(group) == 1 or sum(weights) <= size_max + 20 * max(map(len, group)) * len(group)


def test_small_ledgers_share_a_partition_and_a_large_one_is_split() -> None:
    log = Sizes({1: [36] * 5, 2: [36] * 5, 3: [36] * 100, 4: [36]})
    found = list(ranges(log.sizes, At(1, 0), At(4, 1), log))
    groups = list(partitions(found, 1_000, log))
    assert groups[0] == [EntryRange(1, 0, 4), EntryRange(2, 0, 4)]
    assert [one.last - one.first + 1 for group in groups[1:] for one in group] == [10] * 10 + [1]


@pytest.mark.parametrize("digest_type", list(DigestType))
def test_rows_are_the_payloads_with_their_positions(digest_type: DigestType) -> None:
    payloads = [b"", b"a", b"bc" * 500, b"\x00\xff", b""]
    digest = digest_function(digest_type, b"", 7)
    body, _ = encode_entries(7, range(40, 45), -1, 0, payloads, digest_type, digest)
    whole, _ = decode_entries(body, range(40, 45), 7, digest_type, digest)
    for batch, first, last in ((whole, 0, 5), (whole.part(1, 4), 1, 4), (whole.part(2, 2), 2, 2)):
        rows = rows_of(batch, arrow_schema(LOG_SCHEMA), "orders")
        assert rows.to_pylist() == [
            {
                "value": payloads[i],
                "ledger_id": 7,
                "entry_id": 40 + i,
                "timestamp": None,
                "log": "orders",
            }
            for i in range(first, last)
        ]
        assert rows.schema == arrow_schema(LOG_SCHEMA)


def test_only_the_columns_that_are_wanted_are_made() -> None:
    digest = digest_function(DigestType.NONE, b"", 7)
    body, _ = encode_entries(7, [0], -1, 0, [b"a"], DigestType.NONE, digest)
    batch, _ = decode_entries(body, range(1), 7, DigestType.NONE, digest)
    schema = arrow_schema(chosen(LOG_SCHEMA, ("entry_id", "value")))
    assert rows_of(batch, schema, "orders").to_pydict() == {"entry_id": [0], "value": [b"a"]}


def test_a_log_has_no_other_columns() -> None:
    check_columns(chosen(LOG_SCHEMA, ("value",)))
    with pytest.raises(zbk.InvalidOptionError, match=r"value string.*binary"):
        check_columns(StructType([StructField("value", StringType())]))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("7:42", At(7, 42)),
        (" 7:42 ", At(7, 42)),
        ('{"ledger": 7, "entry": 42}', At(7, 42)),
        ('{"log": "orders", "ledger": 7, "entry": 42}', At(7, 42)),
        ("Earliest", EARLIEST),
        ("LATEST", LATEST),
    ],
)
def test_a_start_is_a_word_a_position_or_an_offset(text: str, position: At | str) -> None:
    options = Options({"log": "orders", "startingOffsets": text})
    assert log_options(options, is_stream=True).start == position


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({}, "log=''"),
        ({"log": "orders", "path": "events"}, "which one"),
        ({"log": "orders", "dataset": "events"}, "which one"),
        ({"log": "orders", "startingOffsets": "first"}, "LEDGER:ENTRY"),
        ({"log": "orders", "startingOffsets": '{"ledger": 7}'}, "no position"),
        ({"log": "orders", "startingOffsets": '{"log": "x", "ledger": 7, "entry": 1}'}, "'x'"),
        ({"log": "orders", "startingOffsets": "{"}, "LEDGER:ENTRY"),
        ({"log": "orders", "endingOffsets": "earliest"}, "nothing to be read"),
        ({"log": "orders", "maxEntriesPerTrigger": "0"}, "between 1"),
        ({"log": "orders", "maxBytesPerTrigger": "0"}, "between 1"),
        ({"log": "orders", "failOnDataLoss": "perhaps"}, "true or false"),
    ],
)
def test_options_that_say_nothing_are_refused(given_options: dict[str, str], said: str) -> None:
    with pytest.raises(zbk.InvalidOptionError, match=said):
        log_options(Options(given_options), is_stream=True)


def test_a_frame_begins_at_the_first_entry_and_a_stream_at_those_to_come() -> None:
    options = Options({"log": "orders"})
    assert log_options(options, is_stream=False).start == EARLIEST
    assert log_options(options, is_stream=True).start == LATEST
    with pytest.raises(zbk.InvalidOptionError, match="nothing to be read"):
        log_options(Options({"log": "orders", "startingOffsets": "latest"}), is_stream=False)


def test_offsets_are_positions_and_name_their_log() -> None:
    places = [BEFORE_ALL, At(0, 0), At(7, 42)]
    for at in places:
        assert position_of("orders", offset_of("orders", at)) == at
    assert all(a < b for a, b in pairwise(places))
    with pytest.raises(zbk.InvalidOptionError, match="checkpoint is of log 'orders'"):
        position_of("events", offset_of("orders", At(7, 42)))
