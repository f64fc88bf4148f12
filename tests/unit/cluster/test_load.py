"""From a stream into a ledger."""

import doctest
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zbk.cluster.load
from tests.support.fake_client import FakeClient
from zbk.cluster.load import (
    BATCH_COUNT_MAX,
    BATCH_SIZE_MAX,
    Source,
    batches,
    chunks,
    lines,
    load,
    whole,
)
from zbk.config import ENTRY_SIZE_MAX_LIMIT
from zbk.errors import EntryTooLargeError, LedgerFencedError


class Pipe:
    """Gives these pieces, one at a time, whatever size is asked for."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [piece for piece in pieces if piece]

    def read1(self, size: int = -1, /) -> bytes:
        assert size > 0, "an unbounded read"
        return self.pieces.pop(0) if self.pieces else b""


class Zeros:
    """A line, or a file, without an end."""

    def read1(self, size: int = -1, /) -> bytes:
        return bytes(size)


def flat(made: Iterator[list[bytes]]) -> list[bytes]:
    return [payload for batch in made for payload in batch]


some_pieces = st.lists(
    st.sampled_from([b"", b"\n", b"a", b"b\n", b"\n\nccc", b"\r\n"]), max_size=12
)


@given(pieces=some_pieces)
def test_lines_joined_again_are_the_input(pieces: list[bytes]) -> None:
    content = b"".join(pieces)

    payloads = flat(lines(Pipe(pieces)))

    assert b"\n".join(payloads) == content.removesuffix(b"\n")
    assert len(payloads) == content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


@given(pieces=some_pieces, size=st.integers(1, 9))
def test_chunks_joined_again_are_the_input(pieces: list[bytes], size: int) -> None:
    payloads = flat(chunks(Pipe(pieces), size))

    assert b"".join(payloads) == b"".join(pieces)
    assert all(len(payload) == size for payload in payloads[:-1])
    assert not payloads or 1 <= len(payloads[-1]) <= size


def test_what_a_pipe_has_given_does_not_wait_for_more() -> None:
    pipe = Pipe([b"one\ntw", b"o\nthree\n", b"four"])
    made = lines(pipe)

    assert next(made) == [b"one"]
    assert len(pipe.pieces) == 2, "nothing more was read"
    assert list(made) == [[b"two", b"three"], [b"four"]]


@pytest.mark.parametrize("cut", [lines, partial(chunks, size=2)])
def test_a_read_that_gives_much_is_several_batches(
    cut: Callable[[Source], Iterator[list[bytes]]],
) -> None:
    content = b"x\n" * (2 * BATCH_COUNT_MAX + 1)

    assert [len(batch) for batch in cut(Pipe([content]))] == [BATCH_COUNT_MAX, BATCH_COUNT_MAX, 1]


def test_large_chunks_make_batches_of_few() -> None:
    content = bytes(3 * BATCH_SIZE_MAX)

    assert [len(batch) for batch in chunks(Pipe([content]), BATCH_SIZE_MAX // 2)] == [2, 2, 2]


def test_a_whole_input_is_one_payload_even_if_it_is_empty() -> None:
    assert list(whole(Pipe([b"ab", b"c"]))) == [[b"abc"]]
    assert list(whole(Pipe([]))) == [[b""]]


@pytest.mark.parametrize("cut", [lines, whole])
def test_an_endless_payload_is_refused_at_the_limit(
    cut: Callable[[Source], Iterator[list[bytes]]],
) -> None:
    with pytest.raises(EntryTooLargeError, match=str(ENTRY_SIZE_MAX_LIMIT)):
        list(cut(Zeros()))


@given(sizes=st.lists(st.sampled_from([0, 1, 1000, BATCH_SIZE_MAX // 3, BATCH_SIZE_MAX * 2])))
def test_batches_keep_order_and_bounds(sizes: list[int]) -> None:
    payloads = [bytes([number % 256]) * size for number, size in enumerate(sizes)]

    made = list(batches(iter(payloads)))

    assert [payload for batch in made for payload in batch] == payloads
    for batch in made:
        assert 1 <= len(batch) <= BATCH_COUNT_MAX
        assert sum(map(len, batch[:-1])) < BATCH_SIZE_MAX


def test_a_batch_is_full_at_its_count() -> None:
    made = list(batches([b""] * (2 * BATCH_COUNT_MAX + 1)))

    assert list(map(len, made)) == [BATCH_COUNT_MAX, BATCH_COUNT_MAX, 1]


def test_a_load_counts_what_it_appended() -> None:
    client = FakeClient()
    writer = client.create_ledger()
    progress: list[int] = []

    loaded = load(writer, [[b"a", b"bc"], [b""], [b"def"]], on_progress=progress.append)

    assert client.entries[0] == [b"a", b"bc", b"", b"def"]
    assert (loaded.entry_count, loaded.payload_size) == (4, 6)
    assert (loaded.first_entry_id, loaded.last_entry_id) == (0, 3)
    assert len(loaded.latencies_s) == 3
    assert progress == [2, 3, 4]


def test_a_load_of_nothing_is_empty() -> None:
    loaded = load(FakeClient().create_ledger(), [])

    assert (loaded.entry_count, loaded.first_entry_id, loaded.last_entry_id) == (0, -1, -1)
    assert loaded.entries_per_s == loaded.mb_per_s or loaded.seconds > 0


class FailingWriter:
    """Fails the second batch, when it is told to."""

    def __init__(self) -> None:
        self.futures: list[Future[range]] = []

    def append_many(self, payloads: object, *, timeout: float | None = None) -> "Future[range]":
        future: Future[range] = Future()
        self.futures.append(future)
        if len(self.futures) == 2:
            self.futures[0].set_result(range(1))
            future.set_exception(LedgerFencedError(7))
        return future


def test_a_load_stops_reading_when_a_batch_failed() -> None:
    writer = FailingWriter()

    with pytest.raises(LedgerFencedError):
        load(writer, ([b"x"] for _ in range(1_000)))

    assert len(writer.futures) == 2


def test_a_payload_over_the_limit_is_named_by_its_place() -> None:
    writer = FakeClient().create_ledger()

    with pytest.raises(EntryTooLargeError) as caught:
        load(writer, [[b"a", b"b"], [b"c", bytes(writer.entry_size_max + 1)]])

    assert caught.value.__notes__ == ["entry 4 of the input is too large"]


def test_the_examples_in_the_docstrings_run() -> None:
    failed, attempted = doctest.testmod(zbk.cluster.load)

    assert (failed, attempted > 0) == (0, True)
