"""A read that compares replicas: which entries a refusal is about."""

import msgspec
import pytest

from tests.support.recovery_world import LEDGER_ID, ledger
from zbk.errors import (
    CorruptRecordError,
    DamageError,
    DigestMismatchError,
    EntryUnreadableError,
    NoSuchEntryError,
)
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.read.compared_read import ComparedRead
from zbk.protocol.read.range_read import Effect, ReadAnswered, ReadStarted, SendRead

IDS = range(5, 10)


def sent(effects: list[Effect]) -> list[tuple[int, list[int]]]:
    """Return the slots that are asked, and for which entries."""
    return [(one.slot, list(one.entry_ids)) for one in effects if isinstance(one, SendRead)]


def refused_by_slot_0(error: DamageError) -> list[tuple[int, list[int]]]:
    """Return the requests that follow when the first of three replicas refuses its request."""
    metadata = msgspec.structs.replace(ledger(Quorum(3, 3, 2)), digest_type=DigestType.MAC)
    read = ComparedRead(metadata, IDS, sources=(0, 1, 2))
    effects = read.handle(ReadStarted(), 0)
    assert sent(effects) == [(0, [*IDS]), (1, [*IDS])]
    first = effects[0]
    assert isinstance(first, SendRead)
    return sent(read.handle(ReadAnswered(0, first.read_id, error), 0))


@pytest.mark.parametrize("offset", [0, 6, 7, 9, 4_096])
def test_the_offset_of_damage_is_not_taken_for_an_entry_id(offset: int) -> None:
    """Damage that names no entry is about the first one; the others are asked for again."""
    error = CorruptRecordError("/b/ledgers/index/00/07.idx", offset, "fails its checksum")

    assert refused_by_slot_0(error) == [(0, [6, 7, 8, 9])]


@pytest.mark.parametrize(
    "error",
    [
        EntryUnreadableError(LEDGER_ID, 7, "fails its checksum"),
        DigestMismatchError(LEDGER_ID, 7),
        NoSuchEntryError(LEDGER_ID, 7),
    ],
)
def test_an_error_that_names_an_entry_is_about_that_entry_only(error: DamageError) -> None:
    assert refused_by_slot_0(error) == [(0, [5, 6, 8, 9])]
