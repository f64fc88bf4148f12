"""Which of a bookie's ledger directories each ledger lives in: where its index is, for ever.

A new one goes by its id to one of those that have space.

Owned by the thread that owns storage; ``avoid`` may be called from any.
"""

from collections.abc import Collection, Sequence
from typing import Final

from zbk.errors import NoSuchLedgerError
from zbk.storage.ledger_directory import LedgerDirectory

HOME_COUNT_MAX: Final = 100_000
"""Ledgers of which it is remembered where they live; for others each directory is asked."""


class LedgerHomes:
    """Finds and chooses. With one directory nothing is looked at."""

    def __init__(self, directories: Sequence[LedgerDirectory], journal_count: int) -> None:
        self._directories = directories
        self._journal_count = journal_count
        self._crowded: frozenset[str] = frozenset()
        self._homes: dict[int, LedgerDirectory] = {}
        self.only = directories[0] if len(directories) == 1 else None

    def avoid(self, crowded: Collection[str]) -> None:
        """Place new ledgers in other directories than these, if there are any."""
        self._crowded = frozenset(crowded)

    def of(self, ledger_id: int) -> LedgerDirectory:
        """Return where a ledger lives.

        Raises:
            NoSuchLedgerError: nowhere.
            CorruptRecordError: its index is damaged: neither yes nor no.
        """
        home = self.find(ledger_id)
        if home is None:
            raise NoSuchLedgerError(ledger_id)
        return home

    def find(self, ledger_id: int) -> LedgerDirectory | None:
        """Return where a ledger lives; ``None``: nowhere. The only directory is not looked at.

        Raises:
            CorruptRecordError: its index is damaged: neither yes nor no.
        """
        home = self.only or self._homes.get(ledger_id)
        if home is None:
            home = next((one for one in self._directories if one.has(ledger_id)), None)
            if home is not None:
                self._remember(ledger_id, home)
        return home

    def choose(self, ledger_id: int) -> LedgerDirectory:
        """Return where a new ledger is to live, from now on."""
        roomy = [one for one in self._directories if one.path not in self._crowded]
        choice = roomy or self._directories
        # each pair of journal and directory is met
        home = choice[ledger_id // self._journal_count % len(choice)]
        self._remember(ledger_id, home)
        return home

    def forget(self, ledger_id: int) -> LedgerDirectory | None:
        """Remember no more where a ledger lives, that is about to go; return where it does."""
        home = self.find(ledger_id)
        self._homes.pop(ledger_id, None)
        return home

    def _remember(self, ledger_id: int, home: LedgerDirectory) -> None:
        self._homes[ledger_id] = home
        if len(self._homes) > HOME_COUNT_MAX:
            del self._homes[next(iter(self._homes))]
