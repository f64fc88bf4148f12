"""Experiment: the cost of metrics, turned on and off in the same processes.

A cluster of three bookies and a client observe and count as always, or not at all
(``metrics_switch``), in turn: on, off, off, on, and so on. Each round appends entries with
``append_many``, then some one by one. What counts is the processor time of the client and of all
bookies together, in nanoseconds, as the kernel has it; the difference is taken within each pair of
rounds. The median of the differences has an error (of the median, from the spread of the pairs):
a difference below it is not seen. More rounds make it smaller. A run with ``is_null`` shows whether
it is all of the error.

On a busy machine the processor time of the same work varies by more than metrics cost, so many
short rounds in turn see more than few long ones. What metrics do is therefore counted as well: the
calls in some rounds, times the processor time of one call in a loop (``metrics_switch``). What a
client counts without a call is in the measured times only.
"""

import argparse
import json
import os
import statistics
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry

from benchmarks.experiments.metrics_switch import (
    Mode,
    costs_of_calls_us,
    switch_metrics,
    switchable,
)
from benchmarks.experiments.processor_time import processor_ns
from zbk.client.api import Client, connect
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.cluster.local import LocalCluster
from zbk.transport.request_counts import RequestCounts

PROGRAM: Final = ("-m", "benchmarks.experiments.metrics_switch")
PAIRS_OF_A_LEDGER: Final = 25


class CostLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one round, and pairs of rounds."""

    pair_count: int = 200
    entry_count: int = 10_000
    lone_count: int = 100
    entry_size: int = 100
    batch_count: int = 2_000
    counted_round_count: int = 20  # of ``append_many``, for the calls
    counted_lone_count: int = 1_000  # lone appends, likewise
    has_client_metrics: bool = True  # those of the client, which are kept on request only
    is_null: bool = False  # on at all times: the differences are errors of the experiment


class RoundCost(msgspec.Struct, frozen=True):
    """The processor time of client and bookies together, and the time that a caller waits."""

    many_us: float  # for each entry of ``append_many``
    lone_us: float  # for each lone append
    wait_us: float  # the median for which a lone append waits


class Difference(msgspec.Struct, frozen=True):
    """One measure with and without metrics: medians, and the difference within a pair."""

    on_us: float
    off_us: float
    added_us: float
    error_us: float

    @property
    def added_percent(self) -> float:
        """The difference as a share of the time without metrics."""
        return 100 * self.added_us / self.off_us

    @property
    def error_percent(self) -> float:
        """The error as such a share."""
        return 100 * self.error_us / self.off_us


class CostResult(msgspec.Struct, frozen=True):
    """Each by the fields of ``RoundCost``."""

    differences: dict[str, Difference]
    counted_us: dict[str, float]  # the time of the calls that were counted, not of ``wait_us``


def run_metrics_cost(folder: Path, load: CostLoad) -> CostResult:
    """Return the differences, and the cost of the calls that are counted."""
    programs = dict.fromkeys(range(3), PROGRAM)
    registry = CollectorRegistry() if load.has_client_metrics else None
    with (
        switchable(),
        LocalCluster(folder / "data", bookie_programs=programs) as cluster,
        connect(cluster.metadata_uri, metrics=registry) as client,
    ):
        pids = [os.getpid(), *(one.pid for one in cluster.bookies)]
        counts = client._pool.counts  # noqa: SLF001 - to turn what it keeps
        switch = Switch([one.http for one in cluster.bookies], counts)
        try:
            pairs = list(_pairs(client, load, pids, switch))
            counted = _counted(client, load, pids, switch)
        finally:
            switch.turn("on")
    differences = {
        field: _difference([(getattr(on, field), getattr(off, field)) for on, off in pairs])
        for field in RoundCost.__struct_fields__
    }
    return CostResult(differences, counted)


def _counted(
    client: Client, load: CostLoad, pids: Sequence[int], switch: "Switch"
) -> dict[str, float]:
    """Return the time of what metrics do for an entry of ``append_many``, and a lone append."""
    call_us = costs_of_calls_us()
    rounds = load.batch_count * load.counted_round_count
    loads = {
        "many_us": (rounds, msgspec.structs.replace(load, entry_count=rounds, lone_count=0)),
        "lone_us": (load.counted_lone_count, msgspec.structs.replace(load, entry_count=0)),
    }
    found = {}
    with client.create_ledger() as ledger:
        _round(ledger, load, pids)  # warm
        for field, (count, one) in loads.items():
            before = switch.turn("count")
            for _ in range(count // max(1, one.entry_count or one.lone_count)):
                _round(ledger, one, pids)
            calls = switch.turn("on") - before
            found[field] = sum(call_us[name] * number for name, number in calls.items()) / count
    client.delete_ledger(ledger.ledger_id)
    return found


def _pairs(
    client: Client, load: CostLoad, pids: Sequence[int], switch: "Switch"
) -> Iterator[tuple[RoundCost, RoundCost]]:
    for first in range(0, load.pair_count, PAIRS_OF_A_LEDGER):
        with client.create_ledger() as ledger:
            _round(ledger, load, pids)  # warm
            for number in range(first, min(first + PAIRS_OF_A_LEDGER, load.pair_count)):
                found = {}
                for is_on in (True, False) if number % 2 == 0 else (False, True):
                    switch.turn("on" if is_on or load.is_null else "off")
                    found[is_on] = _round(ledger, load, pids)
                yield found[True], found[False]
        client.delete_ledger(ledger.ledger_id)


class Switch:
    """Turns the metrics of this process and of all bookies."""

    def __init__(self, urls: Sequence[str], counts: RequestCounts) -> None:
        self._urls = urls
        self._counts, self._answered = counts, counts.answered

    def turn(self, mode: Mode) -> Counter[str]:
        """Turn all; return the calls that were counted so far."""
        calls = Counter(switch_metrics(mode))
        self._counts.answered = None if mode == "off" else self._answered
        for url in self._urls:
            path = f"{url}/switch?metrics={mode}"
            with urllib.request.urlopen(path, timeout=30) as answer:  # noqa: S310 - loopback
                calls.update(json.loads(answer.read()))
        return calls


def _round(ledger: LedgerWriter, load: CostLoad, pids: Sequence[int]) -> RoundCost:
    payload = bytes(load.entry_size)
    begun_ns = processor_ns(pids)
    futures = [
        ledger.append_many([payload] * load.batch_count)
        for _ in range(load.entry_count // load.batch_count)
    ]
    for future in futures:
        future.result()
    between_ns = processor_ns(pids)
    times_ns = [time.monotonic_ns()]
    for _ in range(load.lone_count):
        ledger.append(payload)
        times_ns.append(time.monotonic_ns())
    ended_ns = processor_ns(pids)
    waits_ns = [end - begin for begin, end in pairwise(times_ns)]
    return RoundCost(
        (between_ns - begun_ns) / 1_000 / max(1, load.entry_count),
        (ended_ns - between_ns) / 1_000 / max(1, load.lone_count),
        statistics.median(waits_ns) / 1_000 if waits_ns else 0.0,
    )


def _difference(pairs: Sequence[tuple[float, float]]) -> Difference:
    """Return the medians of pairs of times with and without metrics.

    >>> _difference([(11.0, 10.0), (12.0, 11.0), (10.0, 9.0)])
    Difference(on_us=11.0, off_us=10.0, added_us=1.0, error_us=0.0)
    """
    added = [on - off for on, off in pairs]
    median = statistics.median(added)
    spread = 1.4826 * statistics.median([abs(one - median) for one in added])
    return Difference(
        statistics.median([on for on, _ in pairs]),
        statistics.median([off for _, off in pairs]),
        median,
        1.2533 * spread / len(pairs) ** 0.5,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment, and print the medians."""
    usual = CostLoad()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments.metrics_cost",
        description="Measure appends with and without metrics, in turn.",
    )
    parser.add_argument("--pairs", type=int, default=usual.pair_count, help="of rounds")
    parser.add_argument("--entries", type=int, default=usual.entry_count, help="of a round")
    parser.add_argument("--lone", type=int, default=usual.lone_count, help="appends of a round")
    parser.add_argument("--bookies", action="store_true", help="no metrics in the client")
    parser.add_argument("--null", action="store_true", help="turn nothing: show the errors")
    given = parser.parse_args(arguments)
    load = msgspec.structs.replace(
        usual,
        pair_count=given.pairs,
        entry_count=given.entries,
        lone_count=given.lone,
        has_client_metrics=not given.bookies,
        is_null=given.null,
    )
    with TemporaryDirectory(prefix="zbk-metrics-") as folder:
        found = run_metrics_cost(Path(folder), load)
    for field, one in found.differences.items():
        counted = ""
        if field in found.counted_us:
            counted_us = found.counted_us[field]
            counted = f"  counted {counted_us:.4f} us ({100 * counted_us / one.off_us:.2f} %)"
        sys.stdout.write(
            f"{field:8} on {one.on_us:10.3f}  off {one.off_us:10.3f}  "
            f"added {one.added_us:+8.3f} +- {one.error_us:.3f} us  "
            f"({one.added_percent:+.2f} +- {one.error_percent:.2f} %){counted}\n"
        )


if __name__ == "__main__":
    main()
