"""A writer, a repairer and recoverers that change one ledger's metadata at the same time."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.support.ledgers import metadata_maker
from tests.support.sessions import open_session
from zbk.errors import IllegalTransitionError, LedgerClosedError, LedgerFencedError
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledgers import LedgerStore
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.changes import (
    begin_recovery,
    change_ensemble,
    close_by_recovery,
    close_by_writer,
)
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata, check_transition

Change = Callable[[LedgerMetadata], LedgerMetadata | None]


class Hammer:
    """Everybody's changes; in the middle of each one another one may be made, and win."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        store = open_session(f"races-{seed}")
        initialise(store)
        self.ledgers = LedgerStore(store, pause=lambda _s: None)
        metadata, _ = self.ledgers.create(metadata_maker())
        self.ledger_id = metadata.ledger_id
        self.versions = {0: metadata}
        self.bookie_count = 0
        self.writer_next_id = 0
        self.repairs: set[tuple[int, str]] = set()  # fragment and bookie that is to stay in it
        self.depth = 0

    def new_bookie(self) -> str:
        self.bookie_count += 1
        return f"n{self.bookie_count}"

    def step(self) -> None:
        actions = [self.change_ensemble, self.repair, self.repair, self.begin, self.close]
        weights = [8, 4, 4, 1, 1]
        self.rng.choices([*actions, self.close_by_recovery], [*weights, 2])[0]()

    def update(self, change: Change) -> LedgerMetadata:
        def raced(current: LedgerMetadata) -> LedgerMetadata | None:
            wanted = change(current)
            if self.depth < 3 and self.rng.random() < 0.3:
                self.depth += 1
                self.step()
                self.depth -= 1
            return wanted

        metadata, version = self.ledgers.update(self.ledger_id, raced)
        self.versions[version] = metadata
        return metadata

    # -------------------------------------------------------------- who changes what

    def change_ensemble(self) -> None:
        first = self.writer_next_id + self.rng.randrange(3)
        slots = self.rng.sample(range(3), self.rng.randint(1, 2))
        known, _ = self.ledgers.read(self.ledger_id)
        replaced = {s: (known.last_fragment.bookies[s], self.new_bookie()) for s in slots}
        try:
            self.update(lambda current: change_ensemble(current, first, replaced))
        except (LedgerFencedError, LedgerClosedError):
            assert self.ledgers.read(self.ledger_id)[0].state is not LedgerState.OPEN
        except IllegalTransitionError:
            return  # its own later change came in between: a writer makes one at a time
        else:
            self.writer_next_id = max(self.writer_next_id, first)

    def repair(self) -> None:
        """Replace a bookie in a fragment that is not the last one, as autorecovery does."""
        known, _ = self.ledgers.read(self.ledger_id)
        if len(known.fragments) < 2:
            return
        fragment = self.rng.choice(known.fragments[:-1])
        old, new = self.rng.choice(fragment.bookies), self.new_bookie()

        def change(current: LedgerMetadata) -> LedgerMetadata | None:
            found = next(
                f for f in current.fragments if f.first_entry_id == fragment.first_entry_id
            )
            if old not in found.bookies:
                return None
            return current.with_replaced_bookie(fragment.first_entry_id, old, new)

        changed = self.update(change)
        if any(new in f.bookies for f in changed.fragments):
            self.repairs.discard((fragment.first_entry_id, old))
            self.repairs.add((fragment.first_entry_id, new))

    def begin(self) -> None:
        self.update(begin_recovery)

    def close_by_recovery(self) -> None:
        known, _ = self.ledgers.read(self.ledger_id)
        if known.state is not LedgerState.IN_RECOVERY:
            return
        start = known.last_fragment.first_entry_id + self.rng.randrange(3)
        bookies = known.last_fragment.bookies
        own = Fragment(start, (self.new_bookie(), *bookies[1:]))
        fragments = (own,) if self.rng.random() < 0.5 else ()
        last = start + self.rng.randrange(3)
        self.update(lambda current: close_by_recovery(current, fragments, last, last + 1))

    def close(self) -> None:
        known, _ = self.ledgers.read(self.ledger_id)
        last = known.last_fragment.first_entry_id + 2
        try:
            closed = self.update(lambda current: close_by_writer(current, last, last + 1))
        except (LedgerFencedError, LedgerClosedError):
            assert self.ledgers.read(self.ledger_id)[0].state is not LedgerState.OPEN
        else:
            assert (closed.last_entry_id, closed.length) == (last, last + 1)


@pytest.mark.parametrize("seed", range(200))
def test_everything_that_happens_to_a_ledger_is_a_row_of_legal_changes(seed: int) -> None:
    """B14: no conflict is resolved by overwriting what somebody else has changed."""
    hammer = Hammer(seed)
    for _ in range(30):
        hammer.step()

    versions = sorted(hammer.versions)
    assert versions == list(range(len(versions))), "every version was somebody's change"
    for before, after in pairwise(versions):
        check_transition(hammer.versions[before], hammer.versions[after])
    final, _ = hammer.ledgers.read(hammer.ledger_id)
    for first_entry_id, bookie in hammer.repairs:
        fragment = next(f for f in final.fragments if f.first_entry_id == first_entry_id)
        assert bookie in fragment.bookies, "a repair was undone"
