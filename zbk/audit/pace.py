"""How many audit records are written: a stranger cannot fill the disk, nor hide another's records.

Records of refusals have a rate for each source (an address, or a key without one) and one for all
sources. What is done has a rate of its own: only admitted clients cause it. A record over a rate is
*suppressed*, and counted.

Pure. Its owner locks.
"""

from typing import Final

import msgspec

from zbk.audit.record import AuditRecord

SOURCE_COUNT_MAX: Final = 1_024
"""Sources that are remembered; the one that was silent longest is forgotten."""


class Rate(msgspec.Struct, frozen=True):
    """Records a second in the long run, and at once after a silence."""

    per_s: float
    burst: int


REFUSED_BY_SOURCE: Final = Rate(1, 20)
REFUSED: Final = Rate(20, 200)
DONE: Final = Rate(1_000, 5_000)


class _Bucket:
    __slots__ = ("_left", "_now_ms", "_rate")

    def __init__(self, rate: Rate, now_ms: int) -> None:
        self._rate = rate
        self._left = float(rate.burst)
        self._now_ms = now_ms

    def has_one(self, now_ms: int) -> bool:
        gained = (now_ms - self._now_ms) / 1000 * self._rate.per_s
        self._left = min(float(self._rate.burst), self._left + gained)
        self._now_ms = now_ms
        return self._left >= 1

    def take(self) -> None:
        self._left -= 1


class AuditPace:
    """Decides which records are written."""

    def __init__(self, now_ms: int) -> None:
        self._done = _Bucket(DONE, now_ms)
        self._refused = _Bucket(REFUSED, now_ms)
        self._sources: dict[str, _Bucket] = {}  # the one that was silent longest first

    def admits(self, record: AuditRecord, now_ms: int) -> bool:
        """Return whether a record is written.

        >>> pace = AuditPace(0)
        >>> refused = AuditRecord(action="authenticate", outcome="refused", address="10.0.0.7")
        >>> sum(pace.admits(refused, 0) for _ in range(1_000)), pace.admits(refused, 5_000)
        (20, True)
        """
        buckets = [self._done]
        if record.outcome == "refused":
            source = record.address.rpartition(":")[0] or record.address or record.key_id
            bucket = self._sources.pop(source, None) or _Bucket(REFUSED_BY_SOURCE, now_ms)
            self._sources[source] = bucket
            if len(self._sources) > SOURCE_COUNT_MAX:
                del self._sources[next(iter(self._sources))]
            buckets = [bucket, self._refused]
        if not all(one.has_one(now_ms) for one in buckets):
            return False
        for one in buckets:
            one.take()
        return True
