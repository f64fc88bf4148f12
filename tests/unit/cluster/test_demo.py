"""What the demo says where the ledger and the input differ."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from tests.support.fake_client import FakeBatch, FakeReader
from zbk.cluster.demo import InputRead, _Hasher, _read_back, _read_input
from zbk.cluster.demo_input import FileInput, StandardLibraryInput
from zbk.cluster.local import LocalBookie
from zbk.errors import DigestMismatchError, InvalidOptionError
from zbk.protocol.entry.words import LedgerType

if TYPE_CHECKING:
    from zbk.client.read.ledger_reader import LedgerReader

BOOKIE = LocalBookie(
    index=2, bookie_id="b", pid=1, address="tcp://h:1", incarnation=1, folder=Path("/f")
)


class ListInput:
    description = "a list"

    def __init__(self, payloads: list[bytes]) -> None:
        self.wanted = payloads

    def payloads(self) -> Iterator[bytes]:
        return iter(self.wanted)


class BrokenReader(FakeReader):
    def read_batches(
        self, first: int, last: int, *, bookie_id: str | None = None
    ) -> Iterator[FakeBatch]:
        yield from super().read_batches(first, min(last, 2), bookie_id=bookie_id)
        raise DigestMismatchError(0, 3)


def silent(_what: str, _count: int) -> None:
    return


def difference(reader: FakeReader, source: ListInput, wanted: InputRead | None = None) -> str:
    expected = wanted or _read_input(source, silent)
    as_reader = cast("LedgerReader", reader)
    return _read_back(as_reader, BOOKIE, LedgerType.PD_JOURNAL, expected, source, silent).difference


def reader(entries: list[bytes]) -> FakeReader:
    return FakeReader.of(entries)


ENTRIES = [b"a", b"", b"cc", b"d", b"e"]


def test_the_same_entries_do_not_differ() -> None:
    found = reader(ENTRIES)

    assert difference(found, ListInput(ENTRIES)) == ""
    assert found.bookies_asked == ["b"]


def test_nothing_is_the_same_as_nothing() -> None:
    assert difference(reader([]), ListInput([])) == ""


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([b"a", b"", b"cX", b"d", b"e"], "entry 2 is b'cX', the input has b'cc'"),
        (ENTRIES[:4], "ends before entry 4"),
        ([*ENTRIES, b"f"], "entry 5 is in the ledger and not in the input"),
        ([b"a", b"cc", b"", b"d", b"e"], "entry 1 is b'cc', the input has b''"),
        ([], "ends before entry 0"),
    ],
)
def test_the_first_difference_is_named(entries: list[bytes], text: str) -> None:
    assert text in difference(reader(entries), ListInput(ENTRIES))


def test_entries_that_only_join_to_the_same_bytes_differ() -> None:
    one, other = _Hasher(), _Hasher()

    one.update([b"ab", b"c"])
    other.update([b"a", b"bc"])

    assert one.hexdigest() != other.hexdigest()
    assert (one.entry_count, one.payload_size) == (other.entry_count, other.payload_size) == (2, 3)


def test_a_failed_read_is_a_difference() -> None:
    broken = BrokenReader.of(ENTRIES)

    assert difference(broken, ListInput(ENTRIES)).startswith("after 3 entries: ledger 0 entry 3")


def test_an_input_that_changed_meanwhile_is_named() -> None:
    before = _read_input(ListInput([b"other"]), silent)

    assert "has changed" in difference(reader(ENTRIES), ListInput(ENTRIES), before)


def test_a_file_gives_its_lines_each_time(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"1\n\n2")
    source = FileInput(path)

    assert list(source.payloads()) == list(source.payloads()) == [b"1", b"", b"2"]


def test_a_folder_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="no regular file"):
        FileInput(tmp_path)


def test_the_standard_library_has_no_installed_packages_in_it() -> None:
    source = StandardLibraryInput()

    assert "files of Python 3." in source.description
    assert next(source.payloads()) is not None
    assert not [path for path in source._paths if "site-packages" in path.parts]
    assert source._paths == sorted(source._paths)
