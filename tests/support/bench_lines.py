"""Lines as ``zbk bench`` prints them, made by hand, for tests of what the suite makes of them."""

from benchmarks.case import Line, Step

PERCENTILES = {
    "latency_count": 100,
    "latency_p50_ms": 1.0,
    "latency_p95_ms": 2.0,
    "latency_p99_ms": 3.0,
    "latency_p999_ms": 4.0,
    "latency_max_ms": 5.0,
}

COST = {
    "client_cpu_us_per_entry": 0.5,
    "bookie_cpu_us_per_entry": 0.6,
    "client_rss_size": 50 << 20,
    "bookie_rss_size_max": 100 << 20,
}


NEIGHBOR = {f"neighbor_{name}": value for name, value in PERCENTILES.items()}


def zbk_line(**fields: float) -> Line:
    """Return the result of a write."""
    line: Line = {"measured": "zbk", "entry_size": 100, "entry_count": 1_000_000, "seconds": 1.0}
    line |= {"entries_per_s": 1_000_000.0, "payload_mb_per_s": 100.0, "histogram": [[1.0, 100]]}
    line |= PERCENTILES | NEIGHBOR | COST
    line |= {"write_quorum_size": 3, "disk_write_size": 300 << 20}
    return line | {"slow_bookie_backlog_size_max": 1 << 20} | fields


def floor_line(**fields: float) -> Line:
    """Return the result of a floor."""
    line: Line = {"measured": "floor", "entries_per_s": 2_000_000.0, "payload_mb_per_s": 200.0}
    probe = {"fsync_entry_p50_ms": 0.25, "fsync_entry_p99_ms": 1.0}
    return line | PERCENTILES | probe | fields


def sample_line(at_s: float, entry_count: int, **fields: float) -> Line:
    """Return a sample."""
    line: Line = {"measured": "sample", "at_s": at_s, "entry_count": entry_count}
    line |= {"entries_per_s": entry_count / at_s, "payload_mb_per_s": 10.0}
    return line | COST | fields


def lines_of(step: Step, _divisor: int) -> list[Line]:
    """Return what a step would print; nothing runs."""
    command, *_ = step.words
    others: dict[str, Line] = {
        "tail": {"measured": "tail", "seen_before_ack_count": 3} | PERCENTILES,
        "recovery": {
            "measured": "recovery",
            "seconds": 0.3,
            "entry_count": 1_000_000,
            "acknowledged_count": 999_000,
        },
        "encryption": {
            "measured": "encryption",
            "plain_entries_per_s": 200_000.0,
            "encrypted_entries_per_s": 150_000.0,
            "rate_ratio": 0.75,
            "plain_p50_ms": 0.6,
            "encrypted_p50_ms": 0.7,
            "added_p50_ms": 0.1,
            "handshakes_per_s": 500.0,
        },
        "restart": {
            "measured": "restart",
            "seconds_until_registered": 2.5,
            "seconds_until_read": 3.0,
            "journal_size": 500 << 20,
            "replayed_entry_count": 4_000_000,
        },
        "read": {"entries_per_s": 900_000.0, "payload_mb_per_s": 90.0} | COST,
        "floor": floor_line(),
    }
    if command in others:
        return [others[command]]
    seen = [sample_line(float(n), 100_000 * n) for n in range(1, 10)]
    return [
        *(seen if "--samples" in step.words else []),
        zbk_line(seconds=10.0),
        *([floor_line()] if "--against-floor" in step.words else []),
    ]
