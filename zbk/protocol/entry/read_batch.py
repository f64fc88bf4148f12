"""Verified entries of one read: the received bytes and the position of each entry in them.

``decode_entries`` is the reader's hottest loop; it copies only what the digest needs. Most entries
are small and of one size; C code unpacks and verifies them all at once. A payload is copied to its
own ``bytes`` when a caller asks for it, so a payload that is kept does not keep a whole reply in
memory.

Source: BookKeeper's ``DigestManager.verifyDigestAndReturnData``, over batches.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise, repeat
from operator import add
from typing import Final, Self

from zbk.protocol.entry.digest import DIGEST_CODE, DIGEST_SIZE_BY_CODE, DigestFunction
from zbk.protocol.entry.entry import ENTRY_VERSION, HEADER_SIZE, Entry
from zbk.protocol.entry.rounds import scatter
from zbk.protocol.entry.words import DigestType

# an entry's header in two parts; the table is in zbk.protocol.entry.entry
_START = struct.Struct("<IIqq")  # payload_size, version | digest_code << 8, ledger_id, entry_id
_END = struct.Struct("<qq")  # lac, length

_HEAD = struct.Struct("<IIq")  # the first part without the id

assert _START.size + _END.size == HEADER_SIZE
assert _HEAD.size + 8 == _START.size

ALIKE_COUNT_MIN: Final = 4
"""For fewer entries the check that all are alike does not pay."""

_CHUNK_COUNT: Final = 128
"""Entries unpacked at once: they stay in the cache and do not trigger a garbage collection."""

LARGE_SIZE: Final = 8 * 1024
"""Mean size of entries from which digests are computed over views."""


class ReadBatch:
    """Verified entries of one ledger, in ascending order.

    Invariant: entry i lies at ``bounds[i] .. bounds[i + 1]`` of the body, so there is one bound
    more than there are ids.
    """

    __slots__ = ("_body", "_bounds", "_digest_size", "digest_type", "entry_ids", "ledger_id")

    def __init__(
        self,
        ledger_id: int,
        entry_ids: Sequence[int],
        digest_type: DigestType,
        body: bytes,
        bounds: Sequence[int],
    ) -> None:
        assert len(bounds) == len(entry_ids) + 1, "bounds part the body into entries"
        self.ledger_id = ledger_id
        self.entry_ids = entry_ids  # ascending
        self.digest_type = digest_type
        self._digest_size = DIGEST_SIZE_BY_CODE[DIGEST_CODE[digest_type]]
        self._body = body
        self._bounds = bounds

    @property
    def first_entry_id(self) -> int:
        """The first id of a batch that is not empty."""
        return self.entry_ids[0]

    @property
    def last_entry_id(self) -> int:
        """The last id of a batch that is not empty."""
        return self.entry_ids[-1]

    @property
    def encoded(self) -> bytes:
        """The encoded entries, back to back."""
        return self._body[self._bounds[0] : self._bounds[-1]]

    @property
    def layout(self) -> tuple[bytes, Sequence[int], int, int]:
        """Body, bounds of the encoded entries in it, and the bytes before and after a payload.

        For callers that cut all payloads out at once.
        """
        return self._body, self._bounds, HEADER_SIZE, self._digest_size

    @property
    def size(self) -> int:
        """Bytes of all encoded entries."""
        return self._bounds[-1] - self._bounds[0]

    @property
    def sizes(self) -> Iterator[int]:
        """Bytes of each encoded entry."""
        return (end - start for start, end in pairwise(self._bounds))

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.entry_ids)

    def __getitem__(self, index: int) -> bytes:
        """Return the payload of the ``index``-th entry of the batch."""
        count = len(self.entry_ids)
        if index < 0:
            index += count
        if not 0 <= index < count:
            raise IndexError(f"entry {index} of {count}")
        start = self._bounds[index] + HEADER_SIZE
        return self._body[start : self._bounds[index + 1] - self._digest_size]

    def __iter__(self) -> Iterator[bytes]:
        """Yield the payloads, in order."""
        body, bounds, digest_size = self._body, self._bounds, self._digest_size
        if isinstance(bounds, range) and len(bounds) > 1:
            shape = _payloads_of(bounds.step, digest_size)
            some = memoryview(body)[bounds[0] : bounds[-1]]
            return chain.from_iterable(shape.iter_unpack(some))
        return (body[start + HEADER_SIZE : end - digest_size] for start, end in pairwise(bounds))

    def views(self) -> Iterator[memoryview]:
        """Yield the payloads, in order, without a copy. Each keeps the whole batch in memory."""
        body, digest_size = memoryview(self._body), self._digest_size
        for start, end in pairwise(self._bounds):
            yield body[start + HEADER_SIZE : end - digest_size]

    def entries(self) -> Iterator[Entry]:
        """Yield the entries, in order, with the fields of their headers."""
        body, bounds = self._body, self._bounds
        if len(bounds) == 1:
            return iter(())
        ends: Iterator[tuple[int, int]]
        if isinstance(bounds, range):
            some = memoryview(body)[bounds[0] : bounds[-1]]
            ends = _ends_of(bounds.step).iter_unpack(some)
        else:
            places = map(add, bounds[:-1], repeat(_START.size))
            ends = map(_END.unpack_from, repeat(body), places)
        ledger_id = self.ledger_id
        return (
            Entry(ledger_id, entry_id, lac, length, payload)
            for entry_id, (lac, length), payload in zip(self.entry_ids, ends, self, strict=True)
        )

    @property
    def last_lac(self) -> int:
        """The LAC in the last entry of a batch that is not empty."""
        lac, _length = _END.unpack_from(self._body, self._bounds[-2] + _START.size)
        return int(lac)

    def part(self, start: int, stop: int) -> Self:
        """Return the entries at the indexes ``start .. stop - 1``; they share the bytes."""
        ids, bounds = self.entry_ids[start:stop], self._bounds[start : stop + 1]
        return type(self)(self.ledger_id, ids, self.digest_type, self._body, bounds)

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the encoded entries; large ones without a copy."""
        body, bounds = self._body, self._bounds
        if self.size >= LARGE_SIZE * len(self.entry_ids):
            view = memoryview(body)
            return (view[start:end] for start, end in pairwise(bounds))
        if isinstance(bounds, range) and len(bounds) > 1:
            some = memoryview(body)[bounds[0] : bounds[-1]]
            return chain.from_iterable(struct.Struct(f"{bounds.step}s").iter_unpack(some))
        return (body[start:end] for start, end in pairwise(bounds))


def merge(batches: Sequence[ReadBatch]) -> ReadBatch:
    """Return one batch made of at least one batch of a ledger, whose ids may be interleaved.

    Those of a striped ledger are: its slots hold ids in rounds.
    """
    batches = sorted(batches, key=lambda batch: batch.first_entry_id)
    if all(a.last_entry_id < b.first_entry_id for a, b in pairwise(batches)):
        return _join(batches)
    first, last = batches[0].first_entry_id, max(batch.last_entry_id for batch in batches)
    entry_ids: Sequence[int] = range(first, last + 1)
    pieces: list[bytes | memoryview]
    if sum(map(len, batches)) == len(entry_ids):
        pieces = [b""] * len(entry_ids)
        for batch in batches:
            scatter(pieces, batch.entry_ids, first, list(batch.pieces()))
    else:
        by_id = dict(
            chain.from_iterable(zip(one.entry_ids, one.pieces(), strict=True) for one in batches)
        )
        entry_ids = sorted(by_id)
        pieces = [by_id[entry_id] for entry_id in entry_ids]
    bounds: Sequence[int] = list(accumulate(map(len, pieces), initial=0))
    size = bounds[1]
    if bounds[-1] == size * len(entry_ids) and set(map(len, pieces)) == {size}:
        bounds = range(0, bounds[-1] + 1, size)  # they are alike
    return ReadBatch(
        batches[0].ledger_id, entry_ids, batches[0].digest_type, b"".join(pieces), bounds
    )


def _join(batches: Sequence[ReadBatch]) -> ReadBatch:
    """Return one batch made of at least one batch of a ledger, in ascending order."""
    first = batches[0]
    if len(batches) == 1:
        return first
    id_count = sum(map(len, batches))
    entry_ids: Sequence[int] = range(first.first_entry_id, batches[-1].last_entry_id + 1)
    if len(entry_ids) != id_count:
        entry_ids = list(chain.from_iterable(batch.entry_ids for batch in batches))
    sizes = chain.from_iterable(batch.sizes for batch in batches)
    return ReadBatch(
        first.ledger_id,
        entry_ids,
        first.digest_type,
        b"".join(batch.encoded for batch in batches),
        list(accumulate(sizes, initial=0)),
    )


def decode_entries(
    body: bytes,
    entry_ids: Sequence[int],
    ledger_id: int,
    digest_type: DigestType,
    digest: DigestFunction,
) -> tuple[ReadBatch, bool]:
    """Return the leading entries of ``body`` that match ``entry_ids``, verified.

    They are expected back to back, in the order of ``entry_ids``. The flag is true if they fill
    ``body``. Otherwise the bytes that follow are not the next expected entry, are damaged, or were
    not asked for.
    """
    code = DIGEST_CODE[digest_type]
    digest_size = DIGEST_SIZE_BY_CODE[code]
    expected_flags = ENTRY_VERSION | code << 8
    end = len(body)
    start_max = end - HEADER_SIZE - digest_size
    is_large = end >= LARGE_SIZE * len(entry_ids)
    if not is_large and _are_alike(body, entry_ids, ledger_id, expected_flags, digest_size, digest):
        alike = range(0, end + 1, end // len(entry_ids))
        return ReadBatch(ledger_id, entry_ids, digest_type, body, alike), True
    source = memoryview(body) if is_large else body  # a view costs more than a small copy
    unpack = _START.unpack_from
    bounds = [0]
    start = 0
    for entry_id in entry_ids:
        if start > start_max:
            break
        payload_size, flags, stored_ledger, stored_entry = unpack(body, start)
        payload_end = start + HEADER_SIZE + payload_size
        stop = payload_end + digest_size
        if (
            stored_entry != entry_id
            or stored_ledger != ledger_id
            or flags != expected_flags
            or stop > end
            or digest(source[start:payload_end]) != body[payload_end:stop]
        ):
            break
        bounds.append(stop)
        start = stop
    found_ids = entry_ids[: len(bounds) - 1]
    return ReadBatch(ledger_id, found_ids, digest_type, body, bounds), start == end


def _are_alike(
    body: bytes,
    entry_ids: Sequence[int],
    ledger_id: int,
    flags: int,
    digest_size: int,
    digest: DigestFunction,
) -> bool:
    """Return whether ``body`` is exactly these entries, all of one size and undamaged."""
    count = len(entry_ids)
    size, rest = divmod(len(body), max(1, count))
    payload_size = size - HEADER_SIZE - digest_size
    if count < ALIKE_COUNT_MIN or rest or payload_size < 0:
        return False
    head = _HEAD.pack(payload_size, flags, ledger_id)
    heads_and_ids, contents_and_digests = _entries_of(size, digest_size)
    view = memoryview(body)
    for start in range(0, count, _CHUNK_COUNT):
        chunk = view[start * size : (start + _CHUNK_COUNT) * size]
        heads, ids = zip(*heads_and_ids.iter_unpack(chunk), strict=True)
        if heads.count(head) != len(ids) or ids != tuple(entry_ids[start : start + _CHUNK_COUNT]):
            return False
        contents, digests = zip(*contents_and_digests.iter_unpack(chunk), strict=True)
        if tuple(map(digest, contents)) != digests:
            return False
    return True


@lru_cache(maxsize=64)
def _entries_of(size: int, digest_size: int) -> tuple[struct.Struct, struct.Struct]:
    """Return two formats for entries of a size: head and id; digested bytes and digest."""
    return (
        struct.Struct(f"<{_HEAD.size}sq{size - _START.size}x"),
        struct.Struct(f"<{size - digest_size}s{digest_size}s"),
    )


@lru_cache(maxsize=64)
def _ends_of(size: int) -> struct.Struct:
    """Return the format that unpacks the second part of the header of entries of a size."""
    return struct.Struct(f"<{_START.size}xqq{size - HEADER_SIZE}x")


@lru_cache(maxsize=64)
def _payloads_of(size: int, digest_size: int) -> struct.Struct:
    """Return the format that unpacks the payload of entries of a size."""
    return struct.Struct(f"<{HEADER_SIZE}x{size - HEADER_SIZE - digest_size}s{digest_size}x")
