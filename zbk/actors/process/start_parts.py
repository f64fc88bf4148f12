"""What the steps of a bookie's start share, and its storage before it is open.

Runs in the thread that starts the bookie.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from zbk.actors.process.descriptor_budget import DescriptorBudget
from zbk.actors.space_gate import SpaceGate
from zbk.audit.trail import AuditTrail
from zbk.config import BookieConfig
from zbk.errors import ZbkError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import Cookie
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.service_note import ServiceNote
from zbk.storage.entry_logs.own_logs import OwnLogLimits
from zbk.system.files import FileSystem
from zbk.transport.greeting import Identity
from zbk.transport.router import FrontSecurity


class StartParts(msgspec.Struct, frozen=True):
    """The parts that the steps of a start share."""

    store: MetadataStore
    registry: BookieRegistry
    cookie: Cookie
    gate: SpaceGate
    note: ServiceNote  # of the directories out of service
    security: FrontSecurity | None  # None: connections are not encrypted
    trail: AuditTrail | None  # None: there is no audit log

    def identity(self, config: BookieConfig, incarnation: int) -> Identity:
        """Return what the bookie says of itself to those who connect."""
        return Identity(
            instance_id=self.cookie.instance_id,
            bookie_id=self.cookie.bookie_id,
            incarnation=incarnation,
            credit_size=config.connection_credit_size,
            entry_size_max=config.entry_size_max,
        )


def closed_storage(
    files: FileSystem, config: BookieConfig, start: StartParts, budget: DescriptorBudget
) -> BookieStorage:
    """Return the storage of a bookie, which is not open yet."""
    return BookieStorage(
        files,
        journal_dir=config.journal_dir,
        ledger_dir=config.ledger_dir,
        bookie_id=start.cookie.bookie_id,
        limits=StorageLimits(
            segment_size=config.journal_segment_size,
            log_size_max=config.entry_log_size_max,
            own_logs=OwnLogLimits(config.entry_log_per_ledger, budget.own_log_count_max),
            ledger_cache_size=config.ledger_cache_size,
            open_files_max=budget.open_files_max,
            reserve_size=config.disk_reserve_size,
        ),
        on_no_space=start.gate.met_no_space,
        out_of_service=start.note.paths,
    )


@contextmanager
def failing(storage: BookieStorage, config: BookieConfig) -> Iterator[None]:
    """Enter a context in which an ``OSError`` is a failure of its directory."""
    try:
        yield
    except OSError as error:
        dirs = (*storage.ledger_dirs, *config.journal_dirs)
        name = f"{error.filename}/"
        where = next((one for one in dirs if name.startswith(f"{one}/")), dirs[0])
        with storage.guard(where, "write"):
            raise


def traceback_of(error: BaseException) -> BaseException | None:
    """Return the error if its traceback is useful: of a bug, not of a full or broken disk."""
    return None if isinstance(error, ZbkError) else error
