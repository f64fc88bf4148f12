"""The *home* of each ledger: the ledger directory of a bookie that has its index, forever.

A new ledger goes, by its id, to one of the directories with space.

Owned by the thread that owns storage; any thread may call ``avoid``.
"""

from collections.abc import Collection, Sequence
from typing import Final

from zbk.errors import NoSuchLedgerError
from zbk.storage.index.ledger_info import LedgerInfo
from zbk.storage.ledger_directory import LedgerDirectory
from zbk.storage.stored_ledger import StoredLedger

HOME_COUNT_MAX: Final = 100_000
"""Ledgers whose home is cached; for others each directory is asked."""


class LedgerHomes:
    """Finds and chooses homes. A lone directory is the home of every ledger."""

    def __init__(self, directories: Sequence[LedgerDirectory], journal_count: int) -> None:
        self.directories = directories
        self._journal_count = journal_count
        self._crowded: frozenset[str] = frozenset()
        self._homes: dict[int, LedgerDirectory] = {}
        self._only = directories[0] if len(directories) == 1 else None

    def avoid(self, crowded: Collection[str]) -> None:
        """Place new ledgers in other directories than these, if there are any."""
        self._crowded = frozenset(crowded)

    def find(self, ledger_id: int) -> LedgerDirectory | None:
        """Return the home of a ledger; ``None``: no directory has it.

        Raises:
            CorruptRecordError: its index is damaged: neither yes nor no.
        """
        home = self._only or self._homes.get(ledger_id)
        if home is None:
            home = next((one for one in self.directories if one.has(ledger_id)), None)
            if home is not None:
                self._remember(ledger_id, home)
        return home

    def info(self, ledger_id: int) -> LedgerInfo | None:
        """Return the state of a ledger; ``None`` if the bookie does not have it.

        Raises:
            CorruptRecordError: its index is damaged: neither yes nor no.
        """
        home = self.find(ledger_id)
        return None if home is None else home.cache.info(ledger_id)

    def ledger(self, ledger_id: int) -> StoredLedger:
        """Return a ledger that the bookie has.

        Raises:
            NoSuchLedgerError: no directory has it; with a lone directory its methods raise this.
            CorruptRecordError: its index is damaged: neither yes nor no.
        """
        home = self.find(ledger_id)
        if home is None:
            raise NoSuchLedgerError(ledger_id)
        return StoredLedger(home, home.cache.handle(ledger_id))

    def place(self, ledger_id: int, holder: LedgerDirectory | None = None) -> StoredLedger:
        """Return a ledger in its home, or in the home of a new one; ``set_ledger_key`` makes it.

        ``holder``: the home of a new one, if its entries are in a directory already.

        Raises:
            CorruptRecordError: its index is damaged: neither yes nor no.
        """
        home = self.find(ledger_id) or holder or self._choose(ledger_id)
        return StoredLedger(home, home.cache.handle(ledger_id))

    def _choose(self, ledger_id: int) -> LedgerDirectory:
        roomy = [one for one in self.directories if one.path not in self._crowded]
        choice = roomy or self.directories
        # ledger ids reach each pair of journal and directory
        return choice[ledger_id // self._journal_count % len(choice)]

    def _remember(self, ledger_id: int, home: LedgerDirectory) -> None:
        self._homes[ledger_id] = home
        if len(self._homes) > HOME_COUNT_MAX:
            del self._homes[next(iter(self._homes))]
