"""What a recovered ledger must hold, and how much may be outstanding."""

from collections.abc import Iterator

import pytest

from benchmarks.experiments.numbered import NumberedPayloads
from benchmarks.experiments.recovery import RecoveryLoad, verify
from zbk.errors import DigestMismatchError, InvalidOptionError, NoSuchEntryError


class FakeLedger:
    """A ledger that is its payloads."""

    ledger_id = 7

    def __init__(self, entry_ids: list[int]) -> None:
        self._payloads = [NumberedPayloads(16)[entry_id] for entry_id in entry_ids]

    @property
    def last_add_confirmed(self) -> int:
        return len(self._payloads) - 1

    def read_batches(self, first: int, last: int) -> Iterator[list[bytes]]:
        yield self._payloads[first : last + 1]


def test_a_ledger_with_all_that_was_acknowledged_and_more_is_whole() -> None:
    verify(FakeLedger([0, 1, 2]), acknowledged_count=2)


def test_a_ledger_that_ends_before_an_acknowledged_entry_is_not_whole() -> None:
    with pytest.raises(NoSuchEntryError) as caught:
        verify(FakeLedger([0, 1, 2]), acknowledged_count=4)

    assert caught.value.args == (7, 3)


def test_a_ledger_with_another_entry_in_the_place_of_one_is_not_whole() -> None:
    with pytest.raises(DigestMismatchError) as caught:
        verify(FakeLedger([0, 2, 1]), acknowledged_count=3)

    assert caught.value.args == (7, 1)


def test_a_ledger_that_gives_fewer_entries_than_it_has_is_not_whole() -> None:
    class Short(FakeLedger):
        def read_batches(self, first: int, last: int) -> Iterator[list[bytes]]:
            yield from super().read_batches(first, last - 1)

    with pytest.raises(NoSuchEntryError) as caught:
        verify(Short([0, 1, 2]), acknowledged_count=1)

    assert caught.value.args == (7, 2)


def test_no_more_can_be_outstanding_than_a_writer_has_on_its_way() -> None:
    RecoveryLoad(entry_size=100, outstanding_count=1_000)

    with pytest.raises(InvalidOptionError):
        RecoveryLoad(entry_size=16_384, outstanding_count=1_000)
