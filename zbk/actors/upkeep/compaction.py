"""Compaction of the entry logs of one ledger directory, in steps of the gc actor.

``zbk.storage.gc.compaction`` defines the order of the steps and what each leaves after a crash;
``zbk.protocol.upkeep.compaction`` chooses the logs. This module carries the steps out: it reads and
writes pieces of a log in the gc actor's thread, no faster than the throttle allows, and asks the
storage actor in slices so short that adds do not notice.

A step that cannot be done is given up, and nothing is lost: a damaged source is not compacted until
the next start; without space the sources stay, and the next compaction tries again. If the index is
not on stable storage within ``CHECKPOINT_WAIT_MS``, as on a full disk, the sources stay until a
later round finds that it is.

The steps are generators that wait by ``Waits``, as all steps of the gc actor. Owned and run by the
gc actor. Source: BookKeeper's ``TransactionalEntryLogCompactor``.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from zbk.actors.upkeep.waits import Waits
from zbk.errors import CorruptRecordError, NoSpaceError
from zbk.protocol.throttle import Throttle
from zbk.protocol.upkeep.compaction import LogShare, choose_sources
from zbk.storage.entry_logs.runs import Piece, Run
from zbk.storage.gc.compaction_log import CompactionLog, merge
from zbk.storage.gc.compaction_note import CompactionPlan
from zbk.storage.gc.compaction_questions import (
    FindLive,
    FindPointers,
    IsIndexCrowded,
    Relocate,
    RunSlice,
    SearchTornBlock,
    TakeLogId,
)
from zbk.storage.gc.garbage import Garbage
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.bookie")

T = TypeVar("T")

CHECKPOINT_WAIT_MS: Final = 60_000


class CompactionCounts(msgspec.Struct):
    """Counters over all directories; written by the actor's thread. Sizes in bytes."""

    log_count: int = 0  # sources removed
    copied_size: int = 0
    freed_size: int = 0  # of the sources, less the logs made of them
    gave_up: str = ""  # why the last compaction did less than it might have


class DirectoryCompaction:
    """Carries out the compaction of one ledger directory."""

    def __init__(
        self,
        garbage: Garbage,
        waits: Waits,
        *,
        counts: CompactionCounts,
        throttle: Throttle,
        room_size: Callable[[str], int],
    ) -> None:
        self._garbage = garbage
        self._core = garbage.compaction
        self._waits = waits
        self._counts = counts
        self._throttle = throttle
        self._room_size = room_size
        self._verified_id = 0  # the target of the plan that waits for the disk
        self._checkpoint_no: int | None = None  # the first that makes the index of it durable
        self.shares: list[LogShare] = []  # of the logs at the last look

    @property
    def is_open(self) -> bool:
        """True while a compaction has made its log and has not removed its sources."""
        return self._core.open_plan is not None

    # ------------------------------------------------------------------ rounds

    def look(self, *, is_counting: bool) -> Iterator[bool]:
        """Find out how much of each log is live; count the entries of logs that are new."""
        core = self._core
        self.shares = []
        for log_id in self._garbage.left_logs():
            is_new = core.is_compactable(log_id) and not core.counts.is_known(log_id)
            if is_counting and is_new:
                try:
                    yield from self._count(log_id)
                except CorruptRecordError as error:
                    self._spoil(log_id, error)
            self.shares.append(core.share_of(log_id))
            yield True

    def compact(
        self, threshold: float, should_end: Callable[[], bool]
    ) -> Generator[bool, None, bool]:
        """Compact logs below a threshold; return false if it should end before all are done.

        It makes at least one log, so that frequent rounds do not keep it from ever starting.
        """
        while True:
            if self.is_open:
                self._give_up("the index of the last compaction is not on stable storage yet")
                return True
            sources = self._choose(threshold)
            if not sources:
                return True
            taken = {one.log_id for one in sources}
            is_done = yield from self._compact(sources)
            if not is_done:
                return True
            if not self.is_open:
                self.shares = [one for one in self.shares if one.log_id not in taken]
            if should_end():
                return False

    def finish(self) -> Iterator[bool]:
        """Finish a compaction that a crash interrupted, or that waited for the disk."""
        plan = self._core.open_plan
        if plan is None:
            return
        if self._verified_id != plan.target_id:
            try:
                is_through = yield from self._relocate(plan)
                if not is_through:
                    return
                yield from self._verify(plan)
            except CorruptRecordError as error:
                for log_id in self._core.left_sources(plan):
                    self._spoil(log_id, error)
                self._core.give_up(plan)
                return
            self._verified_id, self._checkpoint_no = plan.target_id, None
        asked_no = yield from self._waits.checkpoint(CHECKPOINT_WAIT_MS)
        if self._checkpoint_no is None:
            self._checkpoint_no = asked_no
        if self._waits.has_ended(self._checkpoint_no):
            self._remove(plan)

    # ------------------------------------------------------------------ counting

    def _count(self, log_id: int) -> Iterator[bool]:
        core = self._core
        if core.has_map(log_id):
            is_live = yield from self._is_tail_live(log_id)
            if is_live:
                core.counts.trust(log_id)
                return
        sizes: dict[int, int] = {}
        for piece in core.pieces(log_id):
            yield from self._pace(piece.size)
            for run, places in (yield from self._live(piece)):
                if places:
                    sizes[run.ledger_id] = sizes.get(run.ledger_id, 0) + run.size_of(places)
        yield from self._verify_torn(log_id)
        core.counts.keep(log_id, sizes)

    def _is_tail_live(self, log_id: int) -> Generator[bool, None, bool]:
        """Return whether the last blocks have no dead entries, except of deleted ledgers."""
        for piece in self._core.tail(log_id):
            yield from self._pace(piece.size)
            live = yield from self._live(piece)
            for run, places in live:
                if len(places) < run.count and run.ledger_id not in self._garbage.deleted.noted:
                    return False
        return True

    def _live(self, piece: Piece) -> Generator[bool, None, list[tuple[Run, Sequence[int]]]]:
        places = yield from self._in_slices(FindLive, piece.runs)
        return [*zip(piece.runs, places, strict=True)]

    # ------------------------------------------------------------------ one compaction

    def _choose(self, threshold: float) -> list[LogShare]:
        shares = self.shares
        room_size = self._room_size(self._core.directory)
        size_max = self._core.log_size_max
        sources = choose_sources(
            shares, threshold, target_size_max=size_max, room_size=max(0, room_size)
        )
        if not sources and choose_sources(
            shares, threshold, target_size_max=size_max, room_size=1 << 62
        ):
            self._give_up(f"{self._core.directory} has no room for the copies")
        return sources

    def _compact(self, sources: Sequence[LogShare]) -> Generator[bool, None, bool]:
        """Compact these logs; return false if there is no space for it."""
        core = self._core
        target_id = yield from self._waits.in_storage(TakeLogId(core))
        plan = CompactionPlan(target_id, tuple(one.log_id for one in sources))
        if not core.note(plan):
            self._give_up(f"{core.directory} has no room for the note of a compaction")
            return False
        yield True
        log = core.begin_log(plan)
        try:
            for source_id in plan.source_ids:
                try:
                    yield from self._copy(source_id, log)
                except CorruptRecordError as error:
                    core.abandon(log)
                    self._spoil(source_id, error)
                    return True
            core.finish(plan, log)
        except NoSpaceError as error:
            core.abandon(log)
            self._give_up(str(error))
            return False
        finally:
            log.close()
        self._counts.copied_size += log.size
        yield True
        yield from self.finish()
        return True

    def _copy(self, source_id: int, log: CompactionLog) -> Iterator[bool]:
        for piece in self._core.pieces(source_id):
            yield from self._pace(piece.size)
            live = yield from self._live(piece)
            size = log.append(merge(live))
            yield from self._pace(size)

    def _relocate(self, plan: CompactionPlan) -> Generator[bool, None, bool]:
        """Point the index at the new log; return false if a checkpoint has to come first."""
        core = self._core
        if not core.is_made(plan):
            return True
        source_ids = frozenset(plan.source_ids)
        for piece in core.pieces(plan.target_id):
            yield from self._pace(piece.size)
            relocate = partial(Relocate, source_ids=source_ids)
            yield from self._in_slices(relocate, piece.runs)
            if (yield from self._waits.in_storage(IsIndexCrowded(core))):
                # without a checkpoint, the storage actor would have to wait for the disk
                asked_no = yield from self._waits.checkpoint(CHECKPOINT_WAIT_MS)
                is_late = not self._waits.has_ended(asked_no)
                if is_late and (yield from self._waits.in_storage(IsIndexCrowded(core))):
                    return False
        return True

    def _verify(self, plan: CompactionPlan) -> Iterator[bool]:
        """Look up each entry of the sources.

        Raises:
            CorruptRecordError: the index points at one, or is damaged.
        """
        for source_id in self._core.left_sources(plan):
            for piece in self._core.pieces(source_id):
                yield from self._pace(piece.size)
                pointed = yield from self._in_slices(FindPointers, piece.runs)
                if any(pointed):
                    run = piece.runs[pointed.index(True)]
                    told = f"the index still points at entries of ledger {run.ledger_id} in it"
                    raise self._core.damage(source_id, told)
            yield from self._verify_torn(source_id)

    def _verify_torn(self, source_id: int) -> Iterator[bool]:
        """Look up what may be in the block that a crash cut off: none of it was ever promised."""
        header = self._core.torn_block(source_id)
        from_id = None if header is None else header.first_entry_id
        while header is not None and from_id is not None:
            search = SearchTornBlock(self._core, source_id, header, from_id)
            is_pointed, from_id = yield from self._waits.in_storage(search)
            if is_pointed:
                told = (
                    f"it ends early, and the index has entries of ledger {header.ledger_id} there"
                )
                raise self._core.damage(source_id, told)

    def _remove(self, plan: CompactionPlan) -> None:
        core, counts = self._core, self._counts
        if not core.forget_sources(plan):
            self._give_up("there is no space to record that the sources are removed")
            return
        log_count = len(core.left_sources(plan))
        freed_size = core.remove_sources(plan) - core.made_size(plan)
        counts.log_count += log_count
        counts.freed_size += max(0, freed_size)
        LOG.info(
            "compaction.done",
            "compaction: %(log_count)d logs became log %(log_id)08x, %(freed_size)d bytes freed",
            log_count=log_count,
            log_id=plan.target_id,
            freed_size=freed_size,
        )

    # ------------------------------------------------------------------ steps

    def _in_slices(
        self, question: Callable[..., RunSlice[T]], runs: Sequence[Run]
    ) -> Generator[bool, None, list[T]]:
        """Ask the storage actor about runs, a few at a time; return what it found of each."""
        found: list[T] = []
        while len(found) < len(runs):
            asked = question(
                compaction=self._core, runs=runs[len(found) :], now_ms=self._waits.now_ms
            )
            found += yield from self._waits.in_storage(asked)
        return found

    def _pace(self, size: int) -> Iterator[bool]:
        now_ms = self._waits.now_ms()
        wait_ms = self._throttle.wait_ms(size, now_ms)
        if wait_ms:
            yield from self._waits.until(now_ms + wait_ms)
        else:
            yield True

    # ------------------------------------------------------------------ giving up

    def _spoil(self, log_id: int, error: CorruptRecordError) -> None:
        self._core.spoil(log_id)
        LOG.warning(
            "compaction.log_put_aside",
            "log %(log_id)08x is not compacted until the next start: %(error)s",
            log_id=log_id,
            error=error,
        )
        self._counts.gave_up = f"log {log_id:08x} is damaged"

    def _give_up(self, reason: str) -> None:
        self._counts.gave_up = reason
        LOG.info("compaction.given_up", "compaction: %(reason)s", reason=reason)
