"""One pass over one ledger directory: its entry logs first, then its index.

    logs    each log (``zbk.storage.scrub.scrub_log``): the regions of it that are not sound
    index   each file (``scrub.scrub_index``): whether it is whole, and whether each entry is at its
            location, outside of those regions

So a ledger is reported only if its index points into damage. If no index does, and all of the index
was seen, no entry is missing there: usually a loss of power has taken unsynced bytes, also of a
sealed log. That is logged, and is no damage (``zbk.storage.entry_logs.lost_regions``). While a
ledger is in limbo for a lost index, which may have pointed there, it is damage.

A log that the census has and that is gone is one region: all entries that point there are damaged.
A pass that sees all of the index, and no pointer to that log, makes the census forget it.

Bytes that are written during the pass are left to the next one, except the beginnings of entries. A
pass does not find entries that the index does not have: `zbk bookie rebuild-index` of a stopped
bookie does.

Memory: one block or one page; ``REGION_COUNT_MAX`` regions; the ids of the logs, and of the ledgers
of one index directory. Beyond that limit a whole log is one region; its sound entries are checked a
second time, as all doubtful entries are, and found sound.

A procedure (``zbk.protocol.procedure``); its effects are in ``scrub_effects``. Any one thread.

Source: BookKeeper's ``InterleavedLedgerStorage.localConsistencyCheck``.
"""

from collections.abc import Iterator
from typing import Final

from zbk.protocol.upkeep.scrub import DamagedFile
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.left_logs import LeftLogs
from zbk.storage.entry_logs.location import OFFSET_MAX
from zbk.storage.scrub.scrub_effects import ScrubSteps
from zbk.storage.scrub.scrub_index import IndexScrub, Regions
from zbk.storage.scrub.scrub_log import LogScrub
from zbk.storage.scrub.scrub_view import ScrubView
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.bookie")

REGION_COUNT_MAX: Final = 10_000


class ScrubPass:
    """One pass. ``steps`` is called once."""

    def __init__(
        self,
        view: ScrubView,
        *,
        region_count_max: int = REGION_COUNT_MAX,
        is_of_index: bool = False,
    ) -> None:
        """``is_of_index``: leave the entry logs out."""
        self._view = view
        self._is_of_index = is_of_index
        self._region_count_max = region_count_max
        self._region_count = 0
        self._regions: Regions = {}
        self._left = LeftLogs()
        self._held_back: dict[int, DamagedFile | None] = {}  # until the whole index was seen
        self._index = IndexScrub(view, self._regions)
        self.share = 0.0  # done, of 1.0; logs and index are half of it each
        self.ledger_id: int | None = None  # of the index that is being read

    @property
    def unconfirmed_count(self) -> int:
        """Places of the index that looked damaged and were busy at every look."""
        return self._index.unconfirmed_count

    def steps(self) -> ScrubSteps:
        """Yield the steps of the pass."""
        self._left = self._view.left_logs  # now: what is left later may be pointed at
        if not self._is_of_index:
            yield from self._logs()
        for log_id, size in self._view.lost_logs.items():
            self._regions[log_id] = [*self._regions.get(log_id, ()), (size, OFFSET_MAX)]
        self.share = 0.5
        yield from self._ledgers()
        yield from self._judge()
        self.share = 1.0

    def _logs(self) -> ScrubSteps:
        view = self._view
        try:
            logs = view.logs()
        except OSError as error:
            yield DamagedFile(view.log_dir, 0, f"cannot be listed: {error.strerror}")
            return
        for number, (log_id, end) in enumerate(logs):
            log = LogScrub(view.files, view.log_dir, log_id, view.owner, end=end)
            damage: DamagedFile | None = None
            for step in log.steps():
                self.share = 0.5 * (number + log.share) / len(logs)
                if isinstance(step, DamagedFile):
                    damage = damage or step  # the first in each file is reported
                else:
                    yield step
            is_kept = self._keep(log_id, log.regions)
            is_left = log_id in self._left and view.lost.may_have(log_id)
            if is_kept and is_left and log.is_judged_by_index:
                self._held_back[log_id] = damage
                continue
            view.lost.revoke(log_id)
            if damage is not None:
                yield damage

    def _ledgers(self) -> ScrubSteps:
        view = self._view
        done_count = 0
        try:
            for some in view.ledgers():
                for ledger_id in some:
                    self.ledger_id = ledger_id
                    yield from self._index.steps(ledger_id)
                    done_count += 1
                    self.share = 0.5 + 0.5 * min(1.0, done_count / max(1, view.ledger_count))
        except OSError as error:
            self._index.note_unseen()
            yield DamagedFile(view.index_dir, 0, f"cannot be listed: {error.strerror}")
        finally:
            self.ledger_id = None
            view.close_files()

    def _judge(self) -> Iterator[DamagedFile]:
        """Report the damage that was held back, or log that no index points into it."""
        view = self._view
        is_complete = self._index.is_complete and not view.is_index_lost()
        if is_complete:
            view.forget_logs(view.lost_logs.keys() - self._index.pointed_ids)
        for log_id, damage in self._held_back.items():
            path = log_path(view.log_dir, log_id)
            if not view.files.exists(path):
                continue  # removed meanwhile
            if not is_complete or log_id in self._index.pointed_ids:
                view.lost.revoke(log_id)
                if damage is not None:
                    yield damage
            elif view.lost.note(log_id, self._regions[log_id]):
                offset, _ = self._regions[log_id][0]
                LOG.info(
                    "scrub.region_unused",
                    "%(path)s at byte %(offset)d is not what was written, and no entry is "
                    "missing there",
                    path=path,
                    offset=offset,
                )

    def _keep(self, log_id: int, regions: list[tuple[int, int]]) -> bool:
        """Keep the regions of a log; return true if there are any and each is kept by itself."""
        is_room = self._region_count + len(regions) <= self._region_count_max
        if regions:
            self._regions[log_id] = regions if is_room else [(0, OFFSET_MAX)]
            self._region_count += len(self._regions[log_id])
        return bool(regions) and is_room
