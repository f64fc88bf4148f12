"""The last 15 minutes of a cluster in memory: figures, sparklines, latencies, events. Pure.

    points     ``POINT_COUNT_MAX``, one for each sample of the cluster
    sparks     ``SPARK_COUNT_MAX`` for each bookie, below ``SPARK_BOOKIE_MAX``
    columns    ``COLUMN_COUNT_MAX`` of the heat map: counts of answers by latency bucket
    events     ``EVENT_COUNT_MAX``
    gaps       ``GAP_COUNT_MAX`` for each of ``GAP_LEDGER_MAX`` ledgers

One thread adds, any thread reads: readers copy.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from zbk.health.cluster_rates import BookieRates, ClusterSample, rates_between, total

POINT_COUNT_MAX: Final = 900
SPARK_COUNT_MAX: Final = 60
SPARK_BOOKIE_MAX: Final = 256
COLUMN_COUNT_MAX: Final = 180
EVENT_COUNT_MAX: Final = 500
GAP_COUNT_MAX: Final = 450
GAP_LEDGER_MAX: Final = 64


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The whole cluster at one moment."""

    at_ms: int  # wall clock
    rates: dict[str, float]
    underreplicated_count: int
    in_repair_count: int
    unsynced_size: float | None = None  # None: no bookie's metrics are known
    unsynced_age_s: float | None = None
    vd_adds_per_s: float | None = None  # None: the metrics of some bookie are not known


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened between two samples."""

    at_ms: int
    lane: str  # a bookie id, "auditor", "ledgers", "metadata" or "repair"
    kind: str
    text: str
    number: int = 0  # from 1, without holes, since the console started


class EventLog:
    """The last ``EVENT_COUNT_MAX`` events. Several threads add, and each event has its place.

    Numbers and times ascend together, so the order of two events never changes, and a reader
    continues after a number.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=EVENT_COUNT_MAX)
        self._count = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._events)

    def add(self, events: Iterable[Event]) -> None:
        """Record events; a time before that of the last event becomes the same."""
        with self._lock:
            for one in events:
                self._count += 1
                last_ms = self._events[-1].at_ms if self._events else one.at_ms
                at_ms = max(one.at_ms, last_ms)
                self._events.append(msgspec.structs.replace(one, at_ms=at_ms, number=self._count))

    def after(self, number: int = 0) -> list[Event]:
        """Return the events with higher numbers, the oldest first."""
        with self._lock:
            return [one for one in self._events if one.number > number]


class StoreOutage:
    """When the metadata store began to be silent, and when it answered again."""

    def __init__(self) -> None:
        self._since_ms: int | None = None

    def seen(self, error: str, at_ms: int) -> Iterator[Event]:
        """Yield the event, if there is one, of a look that failed with ``error``; "": it did not.

        >>> outage = StoreOutage()
        >>> looks = [("", 0), ("no answer", 1_000), ("no answer", 2_000), ("", 9_000)]
        >>> [one.text for look in looks for one in outage.seen(*look)]
        ['no answer', 'after 8 s']
        """
        if error and self._since_ms is None:
            self._since_ms = at_ms
            yield Event(at_ms=at_ms, lane="metadata", kind="store silent", text=error)
        elif not error and self._since_ms is not None:
            text = f"after {max(0, at_ms - self._since_ms) / 1_000:.0f} s"
            self._since_ms = None
            yield Event(at_ms=at_ms, lane="metadata", kind="store answers", text=text)


class Gap(msgspec.Struct, frozen=True):
    """How far one VD ledger is synced at a moment: entry ids, -1 is none."""

    at_ms: int  # wall clock
    synced: int  # at the ack quorum
    confirmed: int  # the LAC
    stored: int  # the LAP: the last entry that some bookie has
    synced_by: Mapping[str, int] = {}  # the LAS of each bookie that answered


class GapHistory:
    """The gaps of the ledgers whose pages are open, one for each time that a page is read.

    The ``GAP_LEDGER_MAX`` that were read last are kept, with ``GAP_COUNT_MAX`` moments each.
    """

    def __init__(self) -> None:
        self._rings: OrderedDict[int, deque[Gap]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, ledger_id: int, gap: Gap) -> list[Gap]:
        """Record the gap of a ledger; return those that are kept."""
        with self._lock:
            ring = self._rings.setdefault(ledger_id, deque(maxlen=GAP_COUNT_MAX))
            self._rings.move_to_end(ledger_id)
            if len(self._rings) > GAP_LEDGER_MAX:
                self._rings.popitem(last=False)
            ring.append(gap)
            return list(ring)


class History:
    """The rings."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=POINT_COUNT_MAX)
        self.columns: dict[str, deque[tuple[int, tuple[int, ...]]]] = {}
        self.events = EventLog()
        self.rates: dict[str, BookieRates] = {}
        self._sparks: dict[str, deque[tuple[float, float]]] = {}  # adds per second, ms of fsyncs

    def add(self, before: ClusterSample, after: ClusterSample, at_ms: int) -> None:
        """Record the figures and the events of a sample."""
        rates = rates_between(before, after)
        self.rates = {one.bookie_id: one for one in rates}
        journals = [one.scraped for one in after.bookies if one.scraped is not None]
        self.points.append(
            Point(
                at_ms=at_ms,
                rates=total(rates),
                underreplicated_count=after.underreplicated_count,
                in_repair_count=after.in_repair_count,
                unsynced_size=sum(one.unsynced_size for one in journals) if journals else None,
                unsynced_age_s=max((one.oldest_unsynced_s for one in journals), default=None),
                vd_adds_per_s=_sum([one.vd_adds_per_s for one in rates if one.rates]),
            )
        )
        self.events.add(events_between(before, after, at_ms))
        self._add_sparks(rates)

    def add_column(self, name: str, at_ms: int, counts: tuple[int, ...]) -> None:
        """Record how many answers of one kind fell into each latency bucket."""
        ring = self.columns.setdefault(name, deque(maxlen=COLUMN_COUNT_MAX))
        ring.append((at_ms, counts))

    def spark(self, bookie_id: str) -> list[float]:
        """Return the last adds per second of a bookie."""
        return [adds for adds, _ in list(self._sparks.get(bookie_id, ()))]

    def fsync_spark(self, bookie_id: str) -> list[float]:
        """Return the last mean durations of the fsyncs of a bookie, in milliseconds."""
        return [ms for _, ms in list(self._sparks.get(bookie_id, ()))]

    def _add_sparks(self, rates: list[BookieRates]) -> None:
        if len(rates) >= SPARK_BOOKIE_MAX:
            self._sparks = {}
            return
        kept = {one.bookie_id: self._sparks.get(one.bookie_id) for one in rates}
        self._sparks = {
            bookie_id: deque(maxlen=SPARK_COUNT_MAX) if ring is None else ring
            for bookie_id, ring in kept.items()
        }
        for one in rates:
            adds = one.rates.get("adds_per_s", 0.0)
            self._sparks[one.bookie_id].append((adds, one.fsync_ms or 0.0))


def _sum(values: list[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) if len(known) == len(values) else None


def events_between(before: ClusterSample, after: ClusterSample, at_ms: int) -> Iterator[Event]:
    """Yield what happened between two samples."""
    then = {one.bookie_id: one for one in before.bookies}
    now = {one.bookie_id: one for one in after.bookies}
    for bookie_id in sorted(then.keys() - now.keys()):
        yield Event(at_ms=at_ms, lane=bookie_id, kind="lost", text="the bookie left the cluster")
    for bookie_id in sorted(now.keys() - then.keys()):
        yield Event(at_ms=at_ms, lane=bookie_id, kind="joined", text="the bookie registered")
    for bookie_id in sorted(now.keys() & then.keys()):
        old, new = then[bookie_id], now[bookie_id]
        if old.is_readonly != new.is_readonly:
            kind = "read-only" if new.is_readonly else "writable"
            yield Event(at_ms=at_ms, lane=bookie_id, kind=kind, text=f"the bookie became {kind}")
        if old.info is not None and new.info is None:
            yield Event(at_ms=at_ms, lane=bookie_id, kind="silent", text="the bookie is silent")
        if old.info is None and new.info is not None:
            text = f"the bookie answers again, incarnation {new.info.incarnation}"
            yield Event(at_ms=at_ms, lane=bookie_id, kind="answers", text=text)
        if old.info and new.info and old.info.incarnation != new.info.incarnation:
            text = f"the bookie started again, incarnation {new.info.incarnation}"
            yield Event(at_ms=at_ms, lane=bookie_id, kind="restarted", text=text)
    counts = before.underreplicated_count, after.underreplicated_count
    if not counts[0] and counts[1]:
        text = f"{counts[1]:,} ledgers lack copies"
        yield Event(at_ms=at_ms, lane="repair", kind="repair began", text=text)
    if counts[0] and not counts[1]:
        text = "no ledger lacks copies any more"
        yield Event(at_ms=at_ms, lane="repair", kind="repair ended", text=text)
