"""A histogram of latencies whose size does not grow with their number.

Buckets are log-linear: 64 for each power of two, so the bounds of a bucket differ by at most 1/64.
A percentile is the upper bound of its bucket: at most 1.6 % too high, never too low. The largest
latency is kept exactly.

One thread records; any thread may take a snapshot meanwhile.

Source: Gil Tene's HdrHistogram.
"""

from array import array
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, Self

from zbk.bench.percentiles import Percentiles

SUB_BITS: Final = 6
"""Each power of two of latencies has ``2**SUB_BITS`` buckets."""

NS_PER_S: Final = 1_000_000_000
LATENCY_NS_MAX: Final = 2**42 - 1  # over an hour; longer ones count as this
Bucket = tuple[float, int]  # upper bound in milliseconds, count


class Histogram:
    """Counts latencies by bucket."""

    __slots__ = ("_counts", "_max_ns")

    def __init__(self, counts: Sequence[int] | None = None, max_ns: int = 0) -> None:
        self._counts = array("Q", counts or bytes(8 * (_index(LATENCY_NS_MAX) + 1)))
        self._max_ns = max_ns

    def record(self, latency_s: float) -> None:
        """Count one latency, given in seconds."""
        latency_ns = min(max(0, int(latency_s * NS_PER_S)), LATENCY_NS_MAX)
        self._counts[_index(latency_ns)] += 1
        self._max_ns = max(self._max_ns, latency_ns)

    def snapshot(self) -> Self:
        """Return a copy that does not change."""
        return type(self)(self._counts, self._max_ns)

    def since(self, earlier: Self) -> Self:
        """Return the counts since ``earlier``; their largest latency is the bound of a bucket."""
        pairs = zip(self._counts, earlier._counts, strict=True)
        grown = [now - then for now, then in pairs]
        last = max((index for index, count in enumerate(grown) if count), default=0)
        return type(self)(grown, min(self._max_ns, _upper_ns(last)))

    def plus(self, other: Self) -> Self:
        """Return the sum of both histograms."""
        pairs = zip(self._counts, other._counts, strict=True)
        whole = [one + more for one, more in pairs]
        return type(self)(whole, max(self._max_ns, other._max_ns))

    @classmethod
    def of(cls, buckets: Iterable[Bucket], max_ms: float) -> Self:
        """Return the histogram with these buckets.

        >>> one = Histogram()
        >>> one.record(0.25)
        >>> Histogram.of(one.buckets(), 250.0).buckets() == one.buckets()
        True
        """
        made = cls(max_ns=round(max_ms * 1e6))
        for upper_ms, count in buckets:
            made._counts[_index(round(upper_ms * 1e6))] += count
        return made

    def buckets(self) -> list[Bucket]:
        """Return the buckets that are not empty, the smallest first."""
        return [
            (_upper_ns(index) / 1e6, count) for index, count in enumerate(self._counts) if count
        ]

    def percentiles(self) -> Percentiles:
        """Return the percentiles; zeros if there are no counts."""
        count = sum(self._counts)
        return Percentiles(
            count=count,
            p50_ms=self._rank_ms(count, 500),
            p95_ms=self._rank_ms(count, 950),
            p99_ms=self._rank_ms(count, 990),
            p999_ms=self._rank_ms(count, 999),
            max_ms=round(self._max_ns / 1e6, 4),
        )

    def _rank_ms(self, count: int, per_mille: int) -> float:
        rank = -(-count * per_mille // 1000)  # nearest rank, from 1
        seen = 0
        for index, one in enumerate(self._counts):
            seen += one
            if one and seen >= rank:
                return round(min(_upper_ns(index), self._max_ns) / 1e6, 4)
        return 0.0


def merged(parts: Iterable[Histogram]) -> Histogram:
    """Return what several have counted together, as a snapshot."""
    return reduce(Histogram.plus, parts, Histogram())


def _index(latency_ns: int) -> int:
    """Return the bucket that a latency falls into."""
    shift = max(0, latency_ns.bit_length() - SUB_BITS - 1)
    return (shift << SUB_BITS) + (latency_ns >> shift)


def _upper_ns(index: int) -> int:
    """Return the largest latency that falls into a bucket."""
    shift = max(0, (index >> SUB_BITS) - 1)
    return ((index - (shift << SUB_BITS) + 1) << shift) - 1
