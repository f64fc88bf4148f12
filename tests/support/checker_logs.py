"""Judges logs of ledgers (I34): one sequence, nothing lost. See ``tests.support.checker``.

A position in a log is the rank of its ledger in the list, which only grows at its end, and the
entry's id. Truncated ledgers keep their rank.

An entry of a VD ledger that was acknowledged may be lost with the page caches, unless it is
durable: its owner synced it, or went on to a later ledger, which it does only after a sync.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.support.checker import Violation
from tests.support.history import FAILED_FSYNC, POWER_LOSS, Event, History, LogVersion
from zbk.protocol.entry.words import NO_ENTRY


def check_logs(history: History) -> Iterator[Violation]:
    """Yield what is wrong with each log."""
    versions: dict[str, list[LogVersion]] = defaultdict(list)
    for version in history.metadata.logs:
        versions[version.log].append(version)
    events: dict[str, list[Event]] = defaultdict(list)
    for event in history:
        if event.log is not None:
            events[event.log].append(event)
    volatile: set[int] = set()
    if any(e.call in (POWER_LOSS, FAILED_FSYNC) for e in history):
        kinds = ((v.ledger_id, v.metadata.ledger_type) for v in history.metadata.ledgers)
        volatile = {i for i, kind in kinds if kind.is_volatile}
    syncs = [e for e in history if e.call == "sync" and e.kind == "ok"] if volatile else []
    for log in sorted(versions):
        case = _LogCase(log, versions[log], events[log])
        case.volatile = volatile
        for sync in syncs:
            assert sync.ledger_id is not None
            assert sync.result is not None
            key = sync.process, sync.ledger_id
            case.synced[key] = max(case.synced.get(key, NO_ENTRY), sync.result)
        yield from case.check()


class _LogCase:
    def __init__(self, log: str, versions: list[LogVersion], events: list[Event]) -> None:
        self._log = log
        self._versions = versions
        self._events = events
        self._ranks: dict[int, int] = {}
        self._listed_at: dict[int, int] = {}
        self.volatile: set[int] = set()  # ledgers that may have lost what was not synced
        self.synced: dict[tuple[str, int], int] = {}  # by owner and ledger: the last entry
        for version in versions:
            for ledger_id in version.ledger_ids:
                self._ranks.setdefault(ledger_id, len(self._ranks))
                self._listed_at.setdefault(ledger_id, version.index)

    def check(self) -> Iterator[Violation]:
        """Yield what is wrong."""
        yield from self._check_list()
        appends = [e for e in self._events if e.call == "log_append" and e.kind == "ok"]
        for append in appends:
            listed_at = self._listed_at.get(append.ledger_id or 0)
            if listed_at is None or listed_at > append.index:
                yield self._violation(f"{append} was acknowledged before its ledger was listed")
                return
        yield from self._check_order(appends)
        yield from self._check_reads(appends)

    def _check_list(self) -> Iterator[Violation]:
        for version in self._versions:
            if len(set(version.ledger_ids)) != len(version.ledger_ids):
                yield self._violation(f"a ledger is listed twice: {version}")
        for old, new in pairwise(self._versions):
            kept = [i for i in old.ledger_ids if i in new.ledger_ids]
            is_suffix = list(old.ledger_ids[len(old.ledger_ids) - len(kept) :]) == kept
            if not is_suffix or list(new.ledger_ids[: len(kept)]) != kept:
                yield self._violation(f"the list changed not only at its ends: {old} -> {new}")

    def _check_order(self, appends: list[Event]) -> Iterator[Violation]:
        """What ended before another began lies before it."""
        by_begin = sorted(appends, key=lambda e: e.invoked_at or 0)
        by_end = iter(sorted(appends, key=lambda e: e.index))
        ended = next(by_end, None)
        highest: Event | None = None
        for append in by_begin:
            while ended is not None and ended.index < (append.invoked_at or 0):
                if highest is None or self._position(ended) > self._position(highest):
                    highest = ended
                ended = next(by_end, None)
            if highest is not None and self._position(append) <= self._position(highest):
                yield self._violation(f"{append} began after, and lies before: {highest}")
                return

    def _check_reads(self, appends: list[Event]) -> Iterator[Violation]:
        """Whoever reads on misses nothing that was acknowledged before it began to."""
        kept = self._kept(appends)
        acked = sorted((self._position(e), e.index) for e in kept)
        readers: dict[str, list[Event]] = defaultdict(list)
        for event in self._events:
            if event.call == "log_read" and event.kind == "ok":
                readers[event.process].append(event)
        for name in sorted(readers):
            places = [self._position(e) for e in readers[name]]
            if any(a >= b for a, b in pairwise(places)):
                yield self._violation(f"{name} went back while it read the log")
                continue
            read, begun = set(places), readers[name][0].index
            for place, index in acked:
                if places[0] < place < places[-1] and index < begun and place not in read:
                    yield self._violation(f"{name} did not read the entry at {place}")
                    break

    def _kept(self, appends: list[Event]) -> list[Event]:
        """Return the appends that no loss of page caches takes away."""
        last_rank: dict[str, int] = defaultdict(int)  # by owner: of what it was last told of
        for e in appends:
            last_rank[e.process] = max(last_rank[e.process], self._position(e)[0])
        kept = []
        for e in appends:
            rank, entry_id = self._position(e)
            ledger_id = e.ledger_id or 0
            is_synced = entry_id <= self.synced.get((e.process, ledger_id), NO_ENTRY)
            if ledger_id not in self.volatile or is_synced or rank < last_rank[e.process]:
                kept.append(e)
        return kept

    def _position(self, event: Event) -> tuple[int, int]:
        assert event.ledger_id is not None
        assert event.entry_id is not None
        return self._ranks.get(event.ledger_id, -1), event.entry_id

    def _violation(self, text: str) -> Violation:
        chosen = [(e.index, str(e)) for e in self._events if e.call != "log_read"]
        chosen += [(v.index, str(v)) for v in self._versions]
        lines = [line for _index, line in sorted(chosen)]
        return Violation("I34", f"log {self._log}: {text}", tuple(lines[-60:]))
