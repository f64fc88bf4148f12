"""What a bookie tells of itself (``zbk bookie show``): counters and sizes, gathered when asked."""

from typing import Any

import pykka

from zbk.actors.gc import GcAsked
from zbk.actors.journal import SyncQueue
from zbk.config import BookieConfig
from zbk.storage.bookie_storage import BookieStorage
from zbk.system.clock import monotonic_ms
from zbk.system.files import FileSystem
from zbk.system.process import usage
from zbk.transport.router import Identity, RouterFront
from zbk.wire.messages import BookieInfo, CollectGarbage, GarbageStatus, GetBookieInfo, Message


class About:
    """Gathers ``BookieInfo``. Counters are plain numbers that their owners' threads write."""

    def __init__(
        self,
        files: FileSystem,
        config: BookieConfig,
        identity: Identity,
        front: RouterFront,
        storage: BookieStorage,
        *,
        software: str,
    ) -> None:
        self._files = files
        self._config = config
        self._identity = identity
        self._front = front
        self._storage = storage
        self._software = software
        self._started_ms = monotonic_ms()
        self._actors: dict[str, Any] = {}

    def watch(self, actors: dict[str, "pykka.ActorRef[Any]"], queue: SyncQueue) -> None:
        """Note whose counters to read."""
        self._queue = queue
        self._actors = {name: ref._actor_weakref() for name, ref in actors.items()}  # noqa: SLF001

    def answer(self, request: GetBookieInfo | CollectGarbage) -> Message:
        """Return the answer; the storage actor asks."""
        if isinstance(request, CollectGarbage):
            return self._garbage(request)
        return self._info(request.request_id)

    def _garbage(self, request: CollectGarbage) -> GarbageStatus:
        collector = self._actors["gc"]
        counts = collector.counts
        awaited_round = counts.begun_round + 1
        if request.is_round_wanted:
            collector.actor_ref.tell(GcAsked(awaited_round))
        result = counts.result
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
        )

    def _info(self, request_id: int) -> BookieInfo:
        used = usage()
        adds, reads = self._actors["storage"].counts, self._actors["read"].counts
        journal = self._storage.journal
        garbage = self._actors["gc"].counts
        return BookieInfo(
            request_id=request_id,
            incarnation=self._identity.incarnation,
            bookie_id=self._identity.bookie_id,
            instance_id=self._identity.instance_id,
            software=self._software,
            is_readonly=self._front.is_readonly,
            uptime_ms=monotonic_ms() - self._started_ms,
            ledger_count=self._storage.ledger_count,
            connection_count=self._front.counts.peer_count,
            add_batch_count=adds.batch_count,
            add_entry_count=adds.entry_count,
            add_size=adds.size,
            read_entry_count=reads.entry_count,
            read_size=reads.size,
            journal_write_size=journal.write_size,
            journal_sync_count=self._queue.sync_count,
            journal_position=str(journal.position),
            last_log_mark=str(self._storage.last_mark),
            checkpoint_count=self._actors["checkpoint"].checkpoint_count,
            refused_message_count=self._front.counts.refused_count,
            free_size=self._files.free_size(self._config.ledger_dir),
            rss_size=used.rss_size,
            cpu_ms=used.cpu_ms,
            disk_write_size=used.disk_write_size,
            entry_log_count=self._storage.garbage.log_count(),
            entry_log_size=garbage.logs.size,
            dead_size=garbage.logs.dead_size,
            damaged_log_count=garbage.logs.damaged_count,
            gc_round_count=garbage.ended_round,
            gc_ledger_count=garbage.ledger_count,
            gc_log_count=garbage.log_count,
            gc_freed_size=garbage.freed_size,
            journal_free_size=self._files.free_size(self._config.journal_dir),
            has_reserve=self._storage.has_reserve,
        )
