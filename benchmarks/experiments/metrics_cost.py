"""Experiment: the cost of metrics, with and without them in turn.

Two clusters of three bookies run at the same time; only one of them works. The bookies of one
serve HTTP, which is scraped every 15 s, and observe durations. Those of the other do not. Plain
counters, such as entries added, stay in both: they are older than the metrics.

Each round appends ``entry_count`` entries with ``append_many``, then ``lone_count`` one by one,
first with and then without metrics. The result has the CPU time of the bookies for each entry,
and the wall and CPU times of a lone append, as medians of the rounds. On a busy machine only the
CPU times can be compared.
"""

import argparse
import statistics
import sys
import threading
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from zbk.bench.cost import Meter
from zbk.client.api import Client, connect
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s

OFF_PROGRAM: Final = ("-m", "benchmarks.experiments.bookie_without_metrics")
SCRAPE_INTERVAL_S: Final = 15.0


class CostLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one round."""

    round_count: int = 8
    entry_count: int = 200_000
    lone_count: int = 1_000
    entry_size: int = 100
    batch_count: int = 2_000


class RoundResult(msgspec.Struct, frozen=True):
    """One round of one cluster."""

    bookie_cpu_us: float  # for each entry of ``append_many``
    entries_per_s: float
    lone_append_us: float
    lone_bookie_cpu_us: float  # of all three bookies, for each lone append


def run_metrics_cost(folder: Path, load: CostLoad) -> dict[str, list[RoundResult]]:
    """Return the rounds of both clusters, by ``on`` and ``off``."""
    results: dict[str, list[RoundResult]] = {"on": [], "off": []}
    with ExitStack() as stack:
        clients = {}
        for name, programs in (("on", {}), ("off", dict.fromkeys(range(3), OFF_PROGRAM))):
            cluster = LocalCluster(folder / name, bookie_programs=programs)
            stack.enter_context(cluster)
            clients[name] = stack.enter_context(connect(cluster.metadata_uri))
            _round(clients[name], load)  # warm
        stack.enter_context(_Scraper(clients["on"]))
        for number in range(load.round_count):
            for name in ("on", "off") if number % 2 == 0 else ("off", "on"):
                results[name].append(_round(clients[name], load))
    return results


def _round(client: Client, load: CostLoad) -> RoundResult:
    payload = bytes(load.entry_size)
    with client.create_ledger() as ledger:
        ledger.append(payload)
        meter, begun_s = Meter(client), monotonic_s()
        futures = [
            ledger.append_many([payload] * load.batch_count)
            for _ in range(load.entry_count // load.batch_count)
        ]
        for future in futures:
            future.result()
        seconds = monotonic_s() - begun_s
        cpu_us = meter.cost(load.entry_count).bookie_cpu_us_per_entry
        times, meter = [], Meter(client)
        for _ in range(load.lone_count):
            begun_s = monotonic_s()
            ledger.append(payload)
            times.append(monotonic_s() - begun_s)
        lone_cpu_us = meter.cost(load.lone_count).bookie_cpu_us_per_entry
    client.delete_ledger(ledger.ledger_id)
    lone_us = statistics.median(times) * 1e6
    return RoundResult(cpu_us, load.entry_count / seconds, lone_us, lone_cpu_us)


class _Scraper:
    """Scrapes all bookies of a cluster until the block ends."""

    def __init__(self, client: Client) -> None:
        self._urls = [str(bookie.http) for bookie in client.list_bookies()]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(SCRAPE_INTERVAL_S):
            for url in self._urls:
                with suppress(OSError), urllib.request.urlopen(f"{url}/metrics", timeout=5) as one:  # noqa: S310 - loopback
                    one.read()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment, and print the medians."""
    usual = CostLoad()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments.metrics_cost",
        description="Measure appends with and without metrics, in turn.",
    )
    parser.add_argument("--rounds", type=int, default=usual.round_count, help="of each kind")
    parser.add_argument("--entries", type=int, default=usual.entry_count, help="of a round")
    given = parser.parse_args(arguments)
    load = msgspec.structs.replace(usual, round_count=given.rounds, entry_count=given.entries)
    with TemporaryDirectory(prefix="zbk-metrics-") as folder:
        results = run_metrics_cost(Path(folder), load)
    for field in RoundResult.__struct_fields__:
        on, off = (
            statistics.median(getattr(one, field) for one in results[name])
            for name in ("on", "off")
        )
        sys.stdout.write(
            f"{field:16} on {on:10.2f}  off {off:10.2f}  {100 * (on - off) / off:+.1f} %\n"
        )


if __name__ == "__main__":
    main()
