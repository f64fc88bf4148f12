"""The steps of an audit that take time: looking at bookies, reading ledgers, checking, publishing.

A step blocks, and returns an event for the core. At most one scan step and one check step are under
way at a time, each with up to ``CONCURRENT_COUNT`` requests to the metadata store. Only the ledgers
of one step are in memory.

A listing of all ledgers continues from step to step, if each step begins where the last one ended.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Final, TypeVar, assert_never

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.ledger_checks import LedgerChecker
from zbk.errors import (
    DamageError,
    MetadataConflictError,
    MetadataUnavailableError,
    NoNodeError,
    NoSuchLedgerError,
    UnsupportedVersionError,
)
from zbk.metadata.paths import AVAILABLE, COOKIES, READONLY, READONLY_NAME
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.audit_events import (
    Bookies,
    BookiesSeen,
    CheckKind,
    CheckLedgers,
    JobAnswered,
    LedgersChecked,
    LedgersRead,
    Publish,
    ReadLedgers,
    Report,
)
from zbk.protocol.repair.audit_job import reports_of
from zbk.protocol.repair.fragment_check import CheckedLedger, badly_placed
from zbk.system.clock import monotonic_ms
from zbk.system.event_log import EventLog

CONCURRENT_COUNT: Final = 16
"""Reads and reports under way at the metadata store."""

READ_COUNT: Final = 512
"""Ledgers in one step of a scan."""

CHECK_COUNT: Final = 64
"""Ledgers in one step of a check, at most."""

CHECK_STEP_MS: Final = 5_000
"""The time after which a step of a check ends with the current ledger."""

SILENT_MS: Final = 30_000
"""The time for which a bookie that did not answer is not asked again after a step that took so
long: its next time-out alone may last as long as a step."""

LOG = EventLog("zbk.auditor")

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class LedgerReads:
    """The reads of the metadata of all ledgers, some at a time."""

    def __init__(self, connection: ClusterConnection, pool: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._pool = pool
        self._ids: Iterator[int] = iter(())
        self._last_id: int | None = None  # the listing continues after it

    def next(self, after: int, count: int) -> tuple[list[int], bool]:
        """Return the next ids after ``after``, and whether these are the last ones."""
        if after != self._last_id:
            self._ids = self._connection.ledgers.list(after + 1)
        self._last_id = None  # if this fails
        found = list(islice(self._ids, count))
        self._last_id = found[-1] if found else None
        return found, len(found) < count

    def read_all(self, ledger_ids: Sequence[int]) -> tuple[list[LedgerMetadata], int]:
        """Return the metadata of the ledgers that exist, and the number of damaged ones."""
        found = run_all(self._pool, self._read, ledger_ids)
        damaged_count = sum(one is False for one in found)
        return [one for one in found if isinstance(one, LedgerMetadata)], damaged_count

    def _read(self, ledger_id: int) -> LedgerMetadata | bool:
        try:
            return self._connection.ledgers.read(ledger_id)[0]
        except NoSuchLedgerError:  # deleted meanwhile
            return True
        except (DamageError, UnsupportedVersionError) as error:
            LOG.error(
                "audit.metadata_unreadable",
                "the metadata of ledger %(ledger_id)d cannot be read: %(error)s",
                ledger_id=ledger_id,
                error=error,
            )
            return False


class AuditSteps:
    """The steps of one auditor. ``term`` returns the number of the current term, if any."""

    def __init__(
        self,
        connection: ClusterConnection,
        pool: ThreadPoolExecutor,
        term: Callable[[], int | None],
        *,
        is_full: bool,
    ) -> None:
        self._connection = connection
        self._pool = pool
        self._term = term
        self._is_full = is_full
        self._scan_reads = LedgerReads(connection, pool)
        self._check_reads = LedgerReads(connection, pool)
        self._checker = LedgerChecker(connection.requests, lambda: term() is None)
        self._ask_silent_at_ms = 0

    def look(self, look: int, term: int | None) -> BookiesSeen:
        """Read which bookies are registered, and check that ``term``, if given, covers the look.

        A bookie that moves between writable and read-only is registered as both for a moment, so
        one of the three reads finds it.
        """
        failed = BookiesSeen(look, None)
        if term is not None and self._term() != term:
            return failed
        store = self._connection.store
        try:
            known = frozenset(store.children(COOKIES))
            present = set(store.children(AVAILABLE))
            present.update(store.children(READONLY))
            present.update(store.children(AVAILABLE))
        except (MetadataUnavailableError, NoNodeError) as error:
            LOG.debug(
                "audit.bookies_unread",
                "the registered bookies cannot be read: %(error)s",
                error=error,
            )
            return failed
        if term is not None and self._term() != term:
            return failed
        return BookiesSeen(look, Bookies(known, frozenset(present - {READONLY_NAME})))

    def take(self, effect: ReadLedgers | CheckLedgers | Publish) -> JobAnswered:
        """Run one step of a job; return its answer."""
        value: LedgersRead | LedgersChecked | None = None
        try:
            match effect:
                case ReadLedgers():
                    value = self._read(effect)
                case CheckLedgers():
                    value = self._check(effect)
                case Publish():
                    self._publish(effect)
                case _:
                    assert_never(effect)
        except (MetadataUnavailableError, MetadataConflictError, DamageError) as error:
            return JobAnswered(effect.job, error)
        return JobAnswered(effect.job, value)

    def _read(self, effect: ReadLedgers) -> LedgersRead:
        ids, is_last = self._scan_reads.next(effect.after, READ_COUNT)
        ledgers, damaged_count = self._scan_reads.read_all(ids)
        last_id = ids[-1] if ids else effect.after
        return LedgersRead(tuple(ledgers), last_id, is_last, damaged_count)

    def _check(self, effect: CheckLedgers) -> LedgersChecked:
        begun_ms = monotonic_ms()
        until_ms = begun_ms + CHECK_STEP_MS
        is_asking_silent = begun_ms >= self._ask_silent_at_ms
        if is_asking_silent:
            self._checker.begin_step()
        reports: list[Report] = []
        ledger_count = undecided_count = flaw_count = 0
        ids, is_last = self._check_reads.next(effect.after, CHECK_COUNT)
        ledgers, unreadable_count = self._check_reads.read_all(ids)
        last_id = ids[-1] if ids else effect.after
        racks = {one.bookie_id: one.rack for one in self._connection.directory.registrations()}
        for index, ledger in enumerate(ledgers):
            if effect.kind is CheckKind.PLACEMENT:
                flaw_count += len(badly_placed(ledger, racks))
            else:
                checked = self._check_one(ledger, effect)
                reports += reports_of(ledger.ledger_id, checked)
                undecided_count += bool(checked.undecided)
            ledger_count += 1
            if monotonic_ms() >= until_ms and index + 1 < len(ledgers):
                last_id, is_last = ledger.ledger_id, False
                break
        now_ms = monotonic_ms()
        if is_asking_silent and now_ms >= until_ms:
            self._ask_silent_at_ms = now_ms + SILENT_MS
        return LedgersChecked(
            reports=tuple(reports),
            last_ledger_id=last_id,
            is_last=is_last,
            ledger_count=ledger_count,
            undecided_count=undecided_count,
            flaw_count=flaw_count,
            unreadable_count=unreadable_count,
        )

    def _check_one(self, ledger: LedgerMetadata, effect: CheckLedgers) -> CheckedLedger:
        if effect.kind is CheckKind.REPLICAS:
            return self._checker.compare_holdings(ledger, left_out=effect.lost)
        checked = self._checker.read_replicas(ledger, is_full=self._is_full, left_out=effect.lost)
        self._checker.add_holdings(checked, ledger, left_out=effect.lost)
        return checked

    def _publish(self, effect: Publish) -> None:
        """Write reports to the metadata store, each one only while the term lasts."""

        def report(one: Report) -> None:
            if self._term() != effect.term:
                raise MetadataConflictError("the term of the auditor", "it is over")
            try:
                self._connection.tasks.report(
                    one.ledger_id,
                    one.bookie_ids,
                    one.reason,
                    is_quiet=True,
                    ranges=dict(one.ranges),
                )
            except (DamageError, UnsupportedVersionError) as error:
                LOG.error(
                    "audit.ledger_not_reported",
                    "ledger %(ledger_id)d cannot be reported: %(error)s",
                    ledger_id=one.ledger_id,
                    error=error,
                )

        try:
            run_all(self._pool, report, effect.reports)
        finally:
            with suppress(MetadataUnavailableError):
                self._connection.tasks.announce()


def run_all(
    pool: ThreadPoolExecutor, function: Callable[[ItemT], ResultT], items: Sequence[ItemT]
) -> list[ResultT]:
    """Call the function for each item, ``CONCURRENT_COUNT`` at a time; raise the first failure.

    When it returns or raises, all calls have ended.
    """
    parts = [items[start::CONCURRENT_COUNT] for start in range(min(CONCURRENT_COUNT, len(items)))]
    futures = [pool.submit(lambda part: [function(one) for one in part], part) for part in parts]
    results: list[list[ResultT]] = []
    failure: BaseException | None = None
    for future in futures:
        try:
            results.append(future.result())
        except Exception as error:  # noqa: BLE001 - raised below, after all have ended
            failure = failure or error
    if failure is not None:
        raise failure
    return [one for result in results for one in result]
