"""What a wiped bookie owes: it may not deny what it had, as long as its ledger wants it there."""

import pytest

from tests.simulation.kernel import Kernel
from tests.simulation.oracle import BookieOracle
from tests.simulation.tape import Tape
from tests.support.batches import batch_of
from tests.support.ledgers import metadata_maker
from zbk.actors.journal import AppendGroup
from zbk.storage.journal_record import EntriesRecord

L = 3
EVERY_LEDGER = [(0, 99)]


OURS = metadata_maker(bookies=("ours", "b", "c"))(L)
OTHERS = metadata_maker(bookies=("a", "b", "c"))(L)


def store(oracle: BookieOracle) -> None:
    """Have three entries on its disk, and one of them acknowledged."""
    record = EntriesRecord(batch_of(L, range(3)))
    group = AppendGroup(1, [record], record.size, [], [], is_sync_news=False, is_sync_needed=True)
    oracle.synced([group])
    oracle.promised[L][0] = 1


@pytest.fixture
def oracle() -> BookieOracle:
    oracle = BookieOracle(Kernel(Tape(0)), "ours")
    store(oracle)
    oracle.wiped()
    return oracle


def denials(oracle: BookieOracle) -> list[str]:
    return [violation.invariant for violation in oracle.violations]


def test_what_is_wanted_here_and_not_here_again_may_not_be_denied(oracle: BookieOracle) -> None:
    oracle.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == ["I24"]


def test_what_is_here_again_owes_nothing(oracle: BookieOracle) -> None:
    store(oracle)
    oracle.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == []


def test_an_ensemble_that_names_it_later_counts_none_of_its_answers_of_before(
    oracle: BookieOracle,
) -> None:
    oracle.cleared(EVERY_LEDGER, {L: OTHERS})
    oracle.lost[L].add(7)  # at an unclean stop
    oracle.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == []


def test_the_next_wipe_makes_it_owe_again(oracle: BookieOracle) -> None:
    oracle.cleared(EVERY_LEDGER, {L: OTHERS})
    store(oracle)
    oracle.wiped()
    oracle.cleared(EVERY_LEDGER, {L: OURS})

    assert denials(oracle) == ["I24"]
