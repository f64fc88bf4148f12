"""Indexes made anew: a bookie that was killed, the loss of its index, and the check of it all."""

from collections.abc import Callable

from tests.support.bookie_storages import BOOKIE_ID, KEY, TwinnedStorage
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import InvalidOptionError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.wipe import remove_tree
from zbk.storage.tools.rebuild import IndexRebuild, RebuildReport
from zbk.storage.tools.rebuild_sources import LedgerSecret

ROOT = "/l/index"
INDEX_7 = f"{ROOT}/00/00/0000000000000007.idx"

LOST_IDS = (7, 9, 70_000)
"""Ledgers of which the journal does not have the beginning, if it is long."""


def filled(*, log_size_max: int = 1 << 20, is_journal_long: bool = False) -> TwinnedStorage:
    """A bookie that was killed: some of what it has is in its index, some in its journal only.

    ``is_journal_long``: so that of ledgers 7, 9 and 70,000 the journal does not have the beginning.
    """
    twin = TwinnedStorage(SimulatedDisk(), log_size_max=log_size_max)
    twin.open()
    for ledger_id in (7, 9, 70_000):
        twin.add(ledger_id, range(3))
        twin.add(ledger_id, range(5, 9))
    twin.fence(9)
    twin.set_lac(7, 4)
    if is_journal_long:
        twin.add(7, range(9, 100))
    twin.finish_checkpoint()
    twin.add(7, range(2_000, 2_004), payload_size=30)
    twin.add(8, range(2))
    twin.fence(70_000)
    twin.sync()
    twin.kill()
    return twin


def ask_nobody(ledger_id: int) -> LedgerSecret | None:
    """Raise the error of metadata that know nothing."""
    raise InvalidOptionError("metadata", "", f"who knows ledger {ledger_id}?")


def tell_all(_ledger_id: int) -> LedgerSecret | None:
    """Return the key that all ledgers of a twin have."""
    return LedgerSecret(KEY, LedgerType.PD_JOURNAL)


def rebuild(
    disk: SimulatedDisk, ask: Callable[[int], LedgerSecret | None] = ask_nobody
) -> RebuildReport | None:
    """Make the index anew, asking this for keys that are lost; return the report."""
    made = IndexRebuild(
        disk, journal_dir="/j", ledger_dir="/l", bookie_id=BOOKIE_ID, ask_others=ask
    )
    return made.run()


def lose_index(disk: SimulatedDisk) -> None:
    """Take the index away, with its folder, and the flush file."""
    for path in [*disk.paths(f"{ROOT}/"), *disk.paths("index.flush")]:
        disk.remove_at_rest(path)
    remove_tree(disk, ROOT)


def check(twin: TwinnedStorage, *fenced_ids: int) -> None:
    """Start the bookie; everything promised is there; these ledgers are fenced from now on."""
    for ledger_id in fenced_ids:
        twin.attempted[ledger_id].is_fenced = True
    twin.open()
    twin.check()
    for ledger_id in fenced_ids:
        info = twin.storage.homes.info(ledger_id)
        assert info is not None
        assert info.is_fenced
