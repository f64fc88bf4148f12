"""The directories of a simulated bookie, with their identity, and the limits of what is in them.

They lose files, and are wiped, while the bookie is down.
"""

from collections.abc import Sequence

from tests.simulation.kernel import Kernel
from tests.simulation.metadata import Session
from tests.simulation.tape import Tape
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.identity import check_identity, place_of
from zbk.config import BookieConfig
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import instance_id
from zbk.metadata.values import Cookie, encode
from zbk.storage.bookie_storage import StorageLimits
from zbk.storage.directory.identity import COOKIE_NAME, PLACE_NAME, write_cookie, write_place
from zbk.storage.directory.wipe import wipe
from zbk.storage.entry_logs.own_logs import OwnLogLimits
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE

JOURNAL_DIRS, LEDGER_DIRS = ("/journal", "/journal2"), ("/ledgers", "/ledgers2")
DIRECTORY_COUNTS = (*((1, 1),) * 6, (2, 1), (1, 2), (2, 2), (2, 2))
"""Journal and ledger directories of a bookie."""

LOG_SIZES = (1 << 20, 4096, 1024)
OWN_LOG_SIZES = (1 << 20, 300, 1)


class BookieDirectories:
    """The journal and ledger directories of one bookie, on whichever disk it has."""

    def __init__(self, journal_count: int, ledger_count: int) -> None:
        self.journals = JOURNAL_DIRS[:journal_count]
        self.ledgers = LEDGER_DIRS[:ledger_count]
        self._config = BookieConfig(
            metadata="memory://simulated",
            journal_dir=self.journals,
            ledger_dir=self.ledgers,
        )

    @property
    def all(self) -> Sequence[str]:
        """The paths of all directories."""
        return (*self.journals, *self.ledgers)

    def init(self, disk: SimulatedDisk, session: Session, bookie_id: str) -> None:
        """Do what ``zbk bookie init`` does, with a name that is the same in every run."""
        cookie = Cookie(
            bookie_id=bookie_id,
            instance_id=instance_id(session),
            journal_dirs=self.journals,
            ledger_dirs=self.ledgers,
            created_ms=0,
        )
        for path in self.all:
            disk.make_dirs(path)
            write_place(disk, path, place_of(self._config, path))
            write_cookie(disk, path, encode(cookie))
        BookieRegistry(session).create_cookie(cookie)

    def check(self, disk: SimulatedDisk, session: Session) -> None:
        """Compare the cookies with the one in the metadata store."""
        check_identity(disk, session, self._config)

    def make(self, disk: SimulatedDisk) -> None:
        """Make the directories that are not there."""
        for path in self.all:
            disk.make_dirs(path)

    def wipe(self, disk: SimulatedDisk) -> None:
        """Do what ``zbk bookie format`` does to a bookie that is to come back."""
        wipe(disk, self.all, self.ledgers, with_cookie=False)

    def lose_files(self, disk: SimulatedDisk, kernel: Kernel) -> None:
        """Delete all files but the cookies; of one journal, at times."""
        journals, tape = self.journals, kernel.tape
        is_journal = len(journals) > 1 and tape.draw(4) > 0
        if is_journal:
            kernel.sometimes["bookie: one of its journals vanishes"] += 1
        for directory in (tape.pick(journals),) if is_journal else self.all:
            for path in disk.paths(f"{directory}/"):
                if path not in (f"{directory}/{COOKIE_NAME}", f"{directory}/{PLACE_NAME}"):
                    disk.remove_at_rest(path)


def draw_directories(tape: Tape) -> tuple[BookieDirectories, StorageLimits]:
    """Draw which directories a bookie has, and the limits of its files there."""
    segment_size = SEGMENT_HEADER_SIZE + tape.pick((8192, 2048, 1024))
    # one decision for two: with one directory of each kind a seed means what it meant before
    drawn = tape.draw(len(LOG_SIZES) * len(DIRECTORY_COUNTS))
    limits = StorageLimits(
        segment_size=segment_size,
        log_size_max=LOG_SIZES[drawn // len(DIRECTORY_COUNTS)],
        own_logs=OwnLogLimits("bypass", 2, OWN_LOG_SIZES[tape.aside(3, "own logs")]),
        ledger_cache_size=1 << 20,
        open_files_max=8,
    )
    return BookieDirectories(*DIRECTORY_COUNTS[drawn % len(DIRECTORY_COUNTS)]), limits
