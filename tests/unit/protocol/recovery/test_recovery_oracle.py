"""When a recovery can end at all: against brute force over every set of dead bookies."""

from itertools import combinations, product

import pytest

from tests.support.recovery_world import Bookies, encoded, ledger, length_up_to, recovered
from zbk.errors import LedgerRecoveryError, NotEnoughBookiesError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import RecoveryLimits

QUORUMS = [Quorum(e, w, a) for e, w, a in product(range(1, 5), repeat=3) if e >= w >= a]
IMPATIENT = RecoveryLimits(attempt_count_max=2, retry_delay_ms=1)
ENTRY_COUNT = 4


class Truth:
    """Who has which of four entries; the LAC; who is dead."""

    def __init__(
        self, quorum: Quorum, holders: list[tuple[int, ...]], lac: int, dead: tuple[int, ...]
    ) -> None:
        self.quorum = quorum
        self.holders = holders
        self.lac = lac
        self.dead = set(dead)

    def end(self) -> int | None:
        """Return where the ledger ends, or ``None`` if nobody can know, or keep it."""
        quorum = self.quorum
        for start in range(quorum.ensemble_size):
            if len(self.dead & set(quorum.write_set(start))) >= quorum.ack_size:
                return None
        heard = [s for s in range(quorum.ensemble_size) if s not in self.dead]
        last = self.lac
        while True:
            members = [s for s in quorum.write_set(last + 1) if s not in self.dead]
            if self.holders_of(last + 1, members):
                if len(members) < quorum.ack_size:
                    return None  # it cannot be written back
                last += 1
            elif len(members) >= quorum.write_size - quorum.ack_size + 1:
                break
            else:
                return None
        if last == self.lac != NO_ENTRY and not self.holders_of(last, heard):
            return None  # its length cannot be read
        return last

    def holders_of(self, entry_id: int, among: list[int]) -> list[int]:
        """Return who of ``among`` has an entry."""
        if entry_id >= ENTRY_COUNT:
            return []
        return [slot for slot in among if slot in self.holders[entry_id]]


@pytest.mark.parametrize("quorum", QUORUMS, ids=str)
@pytest.mark.parametrize("is_full", [True, False], ids=["on all", "on an ack quorum"])
@pytest.mark.parametrize("lac", [NO_ENTRY, 1, 3])
def test_a_recovery_ends_exactly_when_the_living_can_decide(
    quorum: Quorum, lac: int, *, is_full: bool
) -> None:
    """B7: for all quorums and all sets of dead bookies, against a brute-force oracle."""
    count = quorum.write_size if is_full else quorum.ack_size
    holders = [quorum.write_set(entry_id)[:count] for entry_id in range(ENTRY_COUNT)]
    for dead_count in range(quorum.ensemble_size + 1):
        for dead in combinations(range(quorum.ensemble_size), dead_count):
            bookies = Bookies()
            for entry_id, slots in enumerate(holders):
                for slot in slots:
                    bookies[f"b{slot}"].entries[entry_id] = encoded(entry_id)
            for slot in range(quorum.ensemble_size):
                bookies[f"b{slot}"].lac = lac
                bookies[f"b{slot}"].is_dead = slot in dead

            recovery = recovered(ledger(quorum), bookies, IMPATIENT)

            end = Truth(quorum, holders, lac, dead).end()
            if end is None:
                assert isinstance(recovery.error, LedgerRecoveryError | NotEnoughBookiesError)
            else:
                assert recovery.end == (end, length_up_to(end)), (dead, recovery.error)
