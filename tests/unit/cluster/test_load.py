"""From a stream into a ledger."""

import doctest
import io
from concurrent.futures import Future

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


class Trickle(io.RawIOBase):
    """A pipe that gives one byte at a time."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = io.BytesIO(content)

    def read(self, size: int = -1, /) -> bytes:
        return self._content.read(min(size, 1))


class Zeros(io.RawIOBase):
    """A line, or a file, without an end."""

    def readline(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size > 0, "an unbounded read of a line"
        return bytes(size)

    def read(self, size: int = -1, /) -> bytes:
        return bytes(size)


@given(content=st.binary(max_size=300))
def test_lines_joined_again_are_the_input(content: bytes) -> None:
    payloads = list(lines(io.BytesIO(content)))

    assert b"\n".join(payloads) == content.removesuffix(b"\n")
    assert len(payloads) == content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


@given(content=st.binary(max_size=300), size=st.integers(1, 50))
def test_chunks_joined_again_are_the_input(content: bytes, size: int) -> None:
    payloads = list(chunks(Trickle(content), size))

    assert b"".join(payloads) == content
    assert all(len(payload) == size for payload in payloads[:-1])


def test_a_whole_input_is_one_payload_even_if_it_is_empty() -> None:
    assert list(whole(Trickle(b"abc"))) == [b"abc"]
    assert list(whole(io.BytesIO())) == [b""]


@pytest.mark.parametrize("cut", [lines, whole])
def test_an_endless_payload_is_refused_at_the_limit(cut: object) -> None:
    source: Source = Zeros()
    assert callable(cut)

    with pytest.raises(EntryTooLargeError, match=str(ENTRY_SIZE_MAX_LIMIT + 1)):
        list(cut(source))


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
