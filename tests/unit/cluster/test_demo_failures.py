"""What the demo says of a ledger that lost something."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest

from tests.support.fake_client import FakeBatch, FakeReader
from zbk.cluster.demo_failures import compared
from zbk.errors import DigestMismatchError

if TYPE_CHECKING:
    from zbk.client.read.ledger_reader import LedgerReader

NUMBERS = [b"this is entry %d" % n for n in range(5)]


class BrokenReader(FakeReader):
    def read_batches(
        self, first: int, last: int, *, bookie_id: str | None = None
    ) -> Iterator[FakeBatch]:
        yield from super().read_batches(first, min(last, 2), bookie_id=bookie_id)
        raise DigestMismatchError(0, 3)


def difference(reader: FakeReader, acknowledged_count: int) -> str:
    return compared(cast("LedgerReader", reader), acknowledged_count).difference


def test_more_than_what_was_acknowledged_is_fine() -> None:
    assert difference(FakeReader.of(NUMBERS), 4) == ""


def test_nothing_is_fine_where_nothing_was_acknowledged() -> None:
    assert difference(FakeReader.of([]), 0) == ""


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (NUMBERS[:3], "5 entries were acknowledged, it ends after 3"),
        ([*NUMBERS[:3], NUMBERS[4], NUMBERS[3]], "entry 3 is b'this is entry 4'"),
        ([], "5 entries were acknowledged, it ends after 0"),
    ],
)
def test_what_is_missing_or_wrong_is_named(entries: list[bytes], text: str) -> None:
    assert text in difference(FakeReader.of(entries), 5)


def test_a_failed_read_is_a_difference() -> None:
    assert difference(BrokenReader.of(NUMBERS), 5).startswith("after 3 entries: ledger 0 entry 3")
