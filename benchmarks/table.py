"""Run the benchmarks that README.md here records, and print its table again.

    python benchmarks/table.py [--rounds 3] [--quick]

Each row is one ``zbk bench`` command in a temporary cluster of its own; zbk and the floor run in
turn, and the median ratio counts, because machines drift.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

WRITES = [
    ("pd", 100, 2_000_000),
    ("vd", 100, 2_000_000),
    ("pd", 1024, 400_000),
    ("vd", 1024, 400_000),
    ("pd", 16384, 30_000),
    ("vd", 16384, 30_000),
]


def bench(*arguments: str) -> list[dict[str, Any]]:
    """Run one ``zbk bench`` command and return its JSON lines."""
    command = [sys.executable, "-m", "zbk", "bench", *arguments, "-o", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def median(values: list[float]) -> float:
    """Return the middle value, the upper one of two."""
    return sorted(values)[len(values) // 2]


def write_row(kind: str, size: int, count: int, rounds: int) -> str:
    """Measure ``append_many`` against the floor and return a table row."""
    lines = bench(
        "write", "--type", kind, "--size", str(size), "--count", str(count),
        "--against-floor", "--rounds", str(rounds),
    )  # fmt: skip
    zbk = [line for line in lines if line.get("measured") == "zbk"]
    floor = [line for line in lines if line.get("measured") == "floor"]
    ratio = median([line["ratio_to_floor"] for line in floor])
    bookie_rss = max(line["bookie_rss_size_max"] for line in zbk) / 2**20
    client_rss = max(line["client_rss_size"] for line in zbk) / 2**20
    return (
        f"| {kind.upper()} | {size} B | {median([r['entries_per_s'] for r in zbk]) / 1e3:,.0f} k "
        f"| {median([r['payload_mb_per_s'] for r in zbk]):,.0f} "
        f"| {median([r['latency_p50_ms'] for r in zbk]):.1f} "
        f"| {median([r['latency_p99_ms'] for r in zbk]):.1f} "
        f"| {median([r['entries_per_s'] for r in floor]) / 1e3:,.0f} k | {ratio:.0%} "
        f"| {bookie_rss:.0f} / {client_rss:.0f} MiB |"
    )


def lone_row(kind: str) -> str:
    """Measure one ``append`` after another against one fsync and against the bare loop."""
    count = "2000"
    zbk, floor = bench(
        "write", "--type", kind, "--api", "sync", "--count", count, "--against-floor"
    )
    probe = bench("floor", "--count", "1000", "--fsync-probe")[-1]
    return (
        f"| {kind.upper()} | {zbk['latency_p50_ms']:.2f} | {zbk['latency_p99_ms']:.2f} "
        f"| {floor['latency_p50_ms']:.2f} | {probe['fsync_4_kib_p50_ms']:.2f} |"
    )


def single_row(name: str, *arguments: str) -> str:
    """Measure something that has no floor and return its rate."""
    line = bench(*arguments)[-1]
    return f"| {name} | {line['entries_per_s'] / 1e3:,.0f} k | {line['payload_mb_per_s']:,.0f} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the entries")
    options = parser.parse_args()
    share = 10 if options.quick else 1

    print(
        "| type | entry | entries/s | MB/s | p50 ms | p99 ms | floor | ratio "
        "| RSS bookie / client |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind, size, count in WRITES:
        print(write_row(kind, size, count // share, options.rounds), flush=True)
    print("\n| lone append | p50 ms | p99 ms | bare loop p50 ms | one fsync p50 ms |")
    print("|---|---|---|---|---|")
    for kind in ("pd", "vd"):
        print(lone_row(kind), flush=True)
    print("\n| other | entries/s | MB/s |\n|---|---|---|")
    for kind in ("pd", "vd"):
        name = f"`append_async`, 100 B, {kind.upper()}"
        print(single_row(name, "write", "--type", kind, "--api", "async", "--count", "400000"))
    for read_size in ("100", "1024"):
        for flag, name in (("", "read"), ("--batches", "read_batches")):
            flags = [flag] if flag else []
            row = single_row(
                f"`{name}`, {read_size} B", "read", "--size", read_size, "--count", "500000", *flags
            )
            print(row, flush=True)


if __name__ == "__main__":
    main()
