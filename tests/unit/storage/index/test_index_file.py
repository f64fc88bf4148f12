"""The header of an index file: golden bytes, round trip, every cut, every flipped bit; names."""

import errno

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.index.index_change import LedgerChange
from zbk.storage.index.index_file import (
    IndexPath,
    IndexReader,
    LedgerIndex,
    decode_header,
    directory_of,
    encode_header,
    ledger_ids,
)
from zbk.storage.index.index_page import INDEX_HEADER_SIZE, page_offset
from zbk.storage.index.page_extents import EXTENT_COUNT_MAX, Extent, PageExtents

KEY = bytes(range(16))


def index_of(ledger_id: int = 7, extent_count: int = 2) -> LedgerIndex:
    index = LedgerIndex(ledger_id, KEY, LedgerType.VD_JOURNAL)
    index.is_fenced = True
    index.explicit_lac, index.last_add_synced, index.last_entry_id = 41, 40, 99
    index.extents = PageExtents(
        Extent(10 * n, 10 * n + 3, 10 * n, n % 2 == 1) for n in range(extent_count)
    )
    return index


@given(
    ledger_id=st.integers(0, 2**63 - 1),
    ledger_type=st.sampled_from(LedgerType),
    is_fenced=st.booleans(),
    ids=st.tuples(*[st.integers(-1, 2**63 - 1)] * 3),
    extent_count=st.integers(0, 56),
)
def test_decode_undoes_encode(
    ledger_id: int,
    ledger_type: LedgerType,
    is_fenced: bool,
    ids: tuple[int, int, int],
    extent_count: int,
) -> None:
    index = index_of(ledger_id, extent_count)
    index.ledger_type, index.is_fenced = ledger_type, is_fenced
    index.explicit_lac, index.last_add_synced, index.last_entry_id = ids

    header = encode_header(index)

    assert len(header) == INDEX_HEADER_SIZE
    found = decode_header(header, ledger_id, "x")
    assert found.info() == index.info()
    assert list(found.extents) == list(index.extents)
    assert found.has_file


def test_every_cut_is_short_and_every_flipped_bit_is_seen() -> None:
    header = encode_header(index_of())
    for short in cut(header, stride=3):
        with pytest.raises(ShortRecordError):
            decode_header(short, 7, "x")
    for _, damaged in flipped(header, stride=3):
        with pytest.raises(CorruptRecordError):
            decode_header(damaged, 7, "x")


def test_the_header_of_another_ledger_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="not the index header of ledger 8"):
        decode_header(encode_header(index_of(7)), 8, "x")


def test_bytes_of_version_1_never_change() -> None:
    golden = golden_bytes("index_v1.txt")

    header = encode_header(index_of())

    assert header[:96] == golden["header start"]
    assert header[-8:] == golden["header checksum"]
    assert header[96:-8] == bytes(INDEX_HEADER_SIZE - 96 - 8)


def scattered(extent_count: int) -> LedgerIndex:
    """Return an index whose pages lie in other slots than those of their numbers."""
    index = index_of()
    index.extents = PageExtents()
    for n in range(extent_count):
        index.extents.add([100 * n + 7, 100 * n + 8])
    return index


def stored(index: LedgerIndex) -> tuple[SimulatedDisk, str]:
    """Return a disk with the index file, without pages of locations."""
    disk = SimulatedDisk()
    place = IndexPath.of("/i", index.ledger_id)
    disk.make_dirs(place.directory)
    file = disk.open(place.path, create=True)
    directory = directory_of(index.extents)  # first: it gets its slots
    change = LedgerChange(index.ledger_id, is_new=True, header=b"", pages=(), directory=directory)
    for part in msgspec.structs.replace(change, header=encode_header(index)).parts():
        part.write_to(file)
    file.truncate(page_offset(index.extents.slot_end))
    return disk, place.path


def test_bytes_of_version_2_never_change() -> None:
    golden = golden_bytes("index_v2.txt")

    header = encode_header(scattered(2))
    disk, path = stored(scattered(79))

    assert header[:96] == golden["header start"]
    assert header[-8:] == golden["header checksum"]
    assert header[96:-8] == bytes(INDEX_HEADER_SIZE - 96 - 8)
    content = disk.content(path)
    assert content[:96] == golden["header with directory"]
    directory = content[page_offset(158) :]
    assert directory[:36] == golden["directory start"]
    assert directory[-16:] == golden["directory trailer"]


@pytest.mark.parametrize("extent_count", [1, 78, 79, 682, 683, EXTENT_COUNT_MAX - 1])
def test_extents_in_any_number_are_read_again(extent_count: int) -> None:
    index = scattered(extent_count)
    disk, _ = stored(index)

    found = IndexReader("/i", OpenFiles(disk, 4)).read_header(7)

    assert found is not None
    assert list(found.extents.placed) == list(index.extents.placed)
    assert found.extents.slot_count == index.extents.slot_count
    for extents in (found.extents, index.extents):
        extents.add([8_000_000])
    assert found.extents.slot_of(8_000_000) == index.extents.slot_of(8_000_000)


def test_every_flipped_bit_and_every_cut_of_extents_is_seen() -> None:
    disk, path = stored(scattered(79))
    whole = disk.content(path)
    at = page_offset(158)
    reader = IndexReader("/i", OpenFiles(disk, 4))
    damaged = [whole[:at] + other for _, other in flipped(whole[at:], stride=1_511)]
    damaged += [other + whole[1024:] for _, other in flipped(whole[:1024], stride=173)]
    damaged += [whole[:size] for size in (at, at + 1, len(whole) - 1)]
    for content in damaged:
        disk.set_content(path, content)
        with pytest.raises(CorruptRecordError):
            reader.read_header(7)


def test_ledgers_made_one_after_the_other_share_a_directory() -> None:
    assert IndexPath.of("/i", 0x0102) == IndexPath("/i/00/01", "/i/00/01/0000000000000102.idx")
    assert len({IndexPath.of("/i", n).directory for n in range(256)}) == 1
    assert len({IndexPath.of("/i", n << 8).directory for n in range(1 << 16)}) == 1 << 16


def test_ids_are_found_by_name_and_unfinished_files_are_not() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/i")
    assert ledger_ids(disk, "/i") == []
    for ledger_id in (2**63 - 1, 5, 1 << 20):
        place = IndexPath.of("/i", ledger_id)
        disk.make_dirs(place.directory)
        disk.open(place.path, create=True)
    disk.open(f"{IndexPath.of('/i', 6).path}.new", create=True)

    assert ledger_ids(disk, "/i") == [5, 1 << 20, 2**63 - 1]


def test_no_file_means_no_ledger_and_everything_else_is_an_error() -> None:
    disk = SimulatedDisk()
    reader = IndexReader("/i", OpenFiles(disk, 4))
    assert reader.read_header(7) is None
    place = IndexPath.of("/i", 7)
    disk.make_dirs(place.directory)
    disk.open(place.path, create=True).close()

    with pytest.raises(ShortRecordError):
        reader.read_header(7)
    disk.set_content(place.path, encode_header(index_of()))
    with pytest.raises(ShortRecordError):
        reader.read_header(7)  # it says that there are pages
    disk.set_content(place.path, encode_header(index_of()) + bytes(page_offset(20)))
    disk.faults = [Fault("pread", errno.EIO)]
    with pytest.raises(CorruptRecordError, match="cannot be read"):
        reader.read_header(7)
    index = reader.read_header(7)
    assert index is not None
    assert reader.read_page(index, 5) is None, "never written"
    with pytest.raises(CorruptRecordError):
        reader.read_page(index, 1)  # written, says the header
    assert reader.read_page(index, 11) is None, "in a sparse extent it may be a hole"
    disk.set_content(place.path, encode_header(index_of()) + b"x" * page_offset(20))
    with pytest.raises(CorruptRecordError):
        reader.read_page(index, 11)
    disk.faults = [Fault("pread", errno.EIO)]
    with pytest.raises(CorruptRecordError, match="cannot be read"):
        reader.read_page(index, 1)
