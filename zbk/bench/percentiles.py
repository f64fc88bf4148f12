"""Latencies as percentiles."""

from collections.abc import Sequence

import msgspec


class Percentiles(msgspec.Struct, frozen=True):
    """Latencies in milliseconds."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


def percentiles(latencies_s: Sequence[float]) -> Percentiles:
    """Return the percentiles of latencies given in seconds (nearest rank).

    >>> percentiles([0.003, 0.001, 0.002])
    Percentiles(count=3, p50_ms=2.0, p95_ms=3.0, p99_ms=3.0, p999_ms=3.0, max_ms=3.0)
    """
    if not latencies_s:
        return Percentiles(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    ordered = sorted(latencies_s)

    def rank_ms(per_mille: int) -> float:
        index = max(0, -(-len(ordered) * per_mille // 1000) - 1)
        return round(ordered[index] * 1000, 4)

    return Percentiles(
        len(ordered), rank_ms(500), rank_ms(950), rank_ms(990), rank_ms(999), rank_ms(1000)
    )
