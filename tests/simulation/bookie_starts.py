"""What each start of a simulated bookie notes before it serves: its number, and possible losses.

The real ``BookieHistory`` counts the starts, and the real ``Losses`` finds what may be gone.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from tests.simulation.bookie_directories import BookieDirectories
from tests.simulation.kernel import Node
from tests.simulation.metadata import MetadataServer, Session
from tests.simulation.oracle import BookieOracle
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.history import BookieHistory
from zbk.actors.identity.losses import Losses
from zbk.metadata.records.bookies import BookieRegistry
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.identity import next_incarnation


class StartingBookie(Protocol):
    """What the record of its starts needs of a bookie."""

    node: Node
    bookie_id: str
    disk: SimulatedDisk
    oracle: BookieOracle
    directories: BookieDirectories


class _Registry(BookieRegistry):
    """Cookies as ever; an earlier life is not waited for, as it is over here before the next."""

    def wait_unregistered(self, bookie_id: str) -> None:
        del bookie_id


class BookieStarts:
    """The starts of one bookie; ``losses`` are those that the last one found."""

    def __init__(
        self,
        bookie: StartingBookie,
        session: Session,
        metadata: MetadataServer,
        *,
        is_cookie_checked: bool,
    ) -> None:
        self._bookie = bookie
        self._session = session
        self._metadata = metadata
        self._is_cookie_checked = is_cookie_checked
        self.incarnation = 0
        self.losses: Losses | None = None
        self.is_wiped = False  # on purpose, and not started since
        self.has_lost_files = False  # all but the cookies, and not started since
        self._history: BookieHistory | None = None  # of this start
        self._boot_count = 1  # the page cache is lost between two of them

    def power_lost(self) -> None:
        """Note that the machine boots before the next start."""
        self._boot_count += 1

    def find_losses(self, storage: BookieStorage) -> Losses:
        """Note, before anything is served, what may be lost."""
        boot_id = f"boot {self._boot_count}"
        losses = Losses(self._bookie.disk, storage.limbo, storage.ledger_dirs, boot_id)
        self.losses = losses
        next_ledger_id = partial(self._session.ledgers().next_ledger_id, is_fresh=True)
        self._count(losses, next_ledger_id)
        losses.find(next_ledger_id, is_wiped_on_purpose=self.is_wiped)
        losses.find_lost_files(storage.owner, next_ledger_id)
        losses.begin_serving()
        self.is_wiped = self.has_lost_files = False
        if losses.reasons:
            node = self._bookie.node
            node.kernel.sometimes["limbo: a bookie is in it"] += 1
            node.trace(f"in limbo: {[one.value for one in losses.reasons]}")
        return losses

    def _count(self, losses: Losses, next_ledger_id: Callable[[], int]) -> None:
        """Count this start, if the directories show what the cluster knows."""
        bookie = self._bookie
        directories = bookie.directories
        if not self._is_cookie_checked:
            self.incarnation = next_incarnation(bookie.disk, *directories.ledgers)
            return
        history = self._history = BookieHistory(
            bookie.disk,
            _Registry(self._session),
            bookie.bookie_id,
            journals=dict(enumerate(directories.journals)),
            ledger_dirs=directories.ledgers,
            losses=losses,
            next_ledger_id=next_ledger_id,
        )
        history.check(is_wiped_on_purpose=self.is_wiped)
        self.incarnation = history.count_up()

    def claim(self) -> None:
        """Record this start in the metadata store, before anything is served."""
        if self._is_cookie_checked:
            assert self._history is not None, "this start was counted"
            self._history.claim()

    def note_whole_again(self, storage: BookieStorage) -> None:
        """Note which ledgers the start says are whole though their index was lost."""
        limbo, oracle, current = storage.limbo, self._bookie.oracle, self._metadata.current
        for ledger_id in sorted(oracle.losses.lost):
            metadata = current.get(ledger_id)
            kind = None if metadata is None else metadata.ledger_type
            is_lost = ledger_id in limbo.lost_indexes
            if is_lost and not limbo.limbo.is_miss_unknown(ledger_id, kind):
                self._bookie.node.kernel.sometimes["limbo: a lost index is whole again"] += 1
                oracle.losses.cleared([(ledger_id, ledger_id)], current)

    def is_in_limbo(self, *, has_lost_fences: bool) -> bool:
        """Return whether ledgers are in limbo after losses that may, or cannot, include fences."""
        if self.losses is None:
            return False
        return bool(self.losses.left(has_lost_fences=has_lost_fences).ledger_count)
