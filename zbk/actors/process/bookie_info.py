"""The status of a bookie (``zbk bookie show``): counters and sizes, gathered when requested."""

from collections.abc import Sequence
from typing import Any

import pykka

from zbk.actors.identity.identity import service_note
from zbk.actors.identity.losses import Losses
from zbk.actors.serve.sync_queue import SyncQueue
from zbk.actors.serve.unsynced_ledgers import UnsyncedLedger, unsynced_ledgers
from zbk.actors.upkeep.compaction_rounds import CompactionRounds
from zbk.actors.upkeep.gc import GcAsked
from zbk.actors.upkeep.scrub import ScrubAsked
from zbk.actors.upkeep.scrub_status import scrub_status
from zbk.audit.trail import AuditCounts
from zbk.config import BookieConfig
from zbk.protocol.upkeep.compaction import CompactionKind
from zbk.storage.bookie_storage import BookieStorage
from zbk.system.clock import monotonic_ms, monotonic_us
from zbk.system.event_log import EventLog, Names
from zbk.system.files import FileSystem
from zbk.system.process import usage
from zbk.transport.greeting import Identity
from zbk.transport.router import RouterFront
from zbk.version import __version__
from zbk.wire.messages import (
    BookieInfo,
    CollectGarbage,
    GarbageStatus,
    GetBookieInfo,
    Message,
    Scrub,
    ScrubStatus,
)

LOG = EventLog("zbk.bookie")


class BookieStatus:
    """Gathers ``BookieInfo``. Counters are plain numbers that their owners' threads write."""

    def __init__(
        self,
        files: FileSystem,
        config: BookieConfig,
        identity: Identity,
        front: RouterFront,
        storage: BookieStorage,
        losses: Losses,
    ) -> None:
        self._files = files
        self._config = config
        self._identity = identity
        self._front = front
        self._storage = storage
        self.losses = losses
        self._started_ms = monotonic_ms()
        self.failed_directories = sorted(service_note(files, config).paths)
        self.audit_counts = AuditCounts()  # of the audit log, if there is one
        self.actors: dict[str, Any] = {}  # by name, as ``BookieActors`` has them
        self.queues: Sequence[SyncQueue] = ()  # one for each journal

    def watch(self, actors: dict[str, "pykka.ActorRef[Any]"], queues: Sequence[SyncQueue]) -> None:
        """Note whose counters to read."""
        self.queues = queues
        self.actors = {name: ref._actor_weakref() for name, ref in actors.items()}  # noqa: SLF001

    def answer(self, request: GetBookieInfo | CollectGarbage | Scrub) -> Message:
        """Return the answer; the storage actor asks."""
        if isinstance(request, CollectGarbage):
            return self._garbage(request)
        if isinstance(request, Scrub):
            return self._scrub(request)
        return self.info(request.request_id)

    def _garbage(self, request: CollectGarbage) -> GarbageStatus:
        collector = self.actors["gc"]
        counts = collector.counts
        awaited_round = counts.begun_round + 1
        if request.suspend or request.resume:
            _switch(collector.compaction, request)
        if request.is_round_wanted:
            kind = CompactionKind(request.compaction) if request.compaction else None
            collector.actor_ref.tell(GcAsked(awaited_round, kind))
        result, compacted = counts.result, collector.compaction.round_counts
        return GarbageStatus(
            request_id=request.request_id,
            incarnation=self._identity.incarnation,
            awaited_round=awaited_round,
            ended_round=counts.ended_round,
            local_count=result.local_count,
            listed_count=result.listed_count,
            candidate_count=result.candidate_count,
            dropped_count=result.dropped_count,
            log_count=counts.round_log_count,
            freed_size=counts.round_freed_size,
            dead_size=counts.logs.dead_size,
            gave_up=result.gave_up[:4096],
            compacted_log_count=compacted.log_count,
            compacted_size=compacted.freed_size,
            compaction_gave_up=compacted.gave_up[:4096],
            suspended=sorted(one.value for one in collector.compaction.suspended),
        )

    def _scrub(self, request: Scrub) -> ScrubStatus:
        scrubber = self.actors["scrub"]
        awaited_pass = scrubber.counts.begun_pass + 1
        if request.is_pass_wanted:
            scrubber.actor_ref.tell(ScrubAsked(awaited_pass))
        return scrub_status(
            scrubber,
            request_id=request.request_id,
            incarnation=self._identity.incarnation,
            awaited_pass=awaited_pass,
        )

    def info(self, request_id: int = 0) -> BookieInfo:
        """Return the counters and sizes of now. Any thread."""
        used = usage()
        adds, reads = self.actors["storage"].counts, self.actors["read"].counts
        journals = self._storage.journals
        garbage = self.actors["gc"].counts
        scrub = self.actors["scrub"]
        compaction = self.actors["gc"].compaction
        minor, major = (compaction.wins[kind] for kind in CompactionKind)
        free_size, total_size = min(map(self._space, self._storage.ledger_dirs))
        return BookieInfo(
            request_id=request_id,
            incarnation=self._identity.incarnation,
            bookie_id=self._identity.bookie_id,
            instance_id=self._identity.instance_id,
            software=__version__,
            is_readonly=self._front.admission.is_readonly,
            uptime_ms=monotonic_ms() - self._started_ms,
            ledger_count=self._storage.ledger_count,
            connection_count=self._front.counts.peer_count,
            add_batch_count=adds.batch_count,
            add_entry_count=adds.entry_count,
            add_size=adds.size,
            read_entry_count=reads.entry_count,
            read_size=reads.size,
            journal_write_size=journals.write_size,
            journal_sync_count=sum(one.sync_count for one in self.queues),
            journal_position=", ".join(str(one.position) for one in journals),
            last_log_mark=", ".join(map(str, self._storage.last_mark)),
            checkpoint_count=self.actors["checkpoint"].checkpoint_count,
            is_checkpointing=self.actors["checkpoint"].is_running,
            refused_message_count=self._front.counts.refused_count,
            free_size=free_size,
            total_size=total_size,
            rss_size=used.rss_size,
            cpu_ms=used.cpu_ms,
            disk_write_size=used.disk_write_size,
            entry_log_count=sum(one.log_count() for one in self._storage.garbages),
            entry_log_size=garbage.logs.size,
            dead_size=garbage.logs.dead_size,
            damaged_log_count=garbage.logs.damaged_count,
            gc_round_count=garbage.ended_round,
            gc_ledger_count=garbage.ledger_count,
            gc_log_count=garbage.log_count,
            gc_freed_size=garbage.freed_size,
            minor_win_log_count=minor.log_count,
            minor_win_size=minor.size,
            major_win_log_count=major.log_count,
            major_win_size=major.size,
            compacted_log_count=compaction.counts.log_count,
            compacted_size=compaction.counts.freed_size,
            compaction_copied_size=compaction.counts.copied_size,
            journal_free_size=min(map(self._files.free_size, journals.directories)),
            has_reserve=self._storage.has_reserve,
            scrub_pass_count=scrub.counts.ended_pass,
            scrub_ended_ms=scrub.counts.ended_ms,
            is_scrubbing=scrub.counts.begun_pass > scrub.counts.ended_pass,
            scrub_share=scrub.counts.share,
            scrub_read_size=scrub.counts.read_size,
            scrub_file_count=scrub.findings.file_count,
            scrub_ledger_count=scrub.findings.ledger_count,
            scrub_entry_count=scrub.findings.entry_count,
            scrub_unreported_count=scrub.queue.pending_count,
            limbo=", ".join(one.value for one in self.losses.reasons),
            out_of_service=", ".join(self.failed_directories)[:256],
            limbo_ledger_count=self.losses.unchecked_count if self.losses.reasons else 0,
        )

    def unsynced_ledgers(self) -> list[UnsyncedLedger]:
        """Return the ledgers of which a loss of power takes entries now. Any thread."""
        now_us = monotonic_us()
        groups = [group for queue in self.queues for group in queue.unsynced_groups()]
        in_logs: list[UnsyncedLedger] = self.actors["storage"].unsynced(now_us)
        return unsynced_ledgers(groups, now_us) + in_logs

    def _space(self, path: str) -> tuple[int, int]:
        return self._files.free_size(path), self._files.total_size(path)


def _switch(compaction: CompactionRounds, request: CollectGarbage) -> None:
    """Suspend and resume kinds of compaction; log a change."""
    wanted = compaction.suspended.union(map(CompactionKind, request.suspend))
    wanted = wanted.difference(map(CompactionKind, request.resume))
    if wanted != compaction.suspended:
        compaction.suspended = wanted
        LOG.warning(
            "compaction.switched",
            "an operator switched compaction; suspended now: %(suspended)s",
            suspended=Names(sorted(wanted)),
        )
