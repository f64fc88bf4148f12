"""Many seeds: run, counted, summed up."""

import gc
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context

import msgspec

from tests.simulation.run import run_seed
from tests.simulation.undisturbed import undisturbed
from tests.simulation.world import Parts

CHUNK_COUNT = 25
FAILURE_COUNT_MAX = 20


class Summary(msgspec.Struct):
    """What came of many runs."""

    seed_count: int = 0
    event_count: int = 0
    entry_count: int = 0
    sometimes: Counter[str] = msgspec.field(default_factory=Counter)
    failures: dict[int, list[str]] = {}  # by seed: the invariants that were broken
    stories: dict[str, str] = {}  # by invariant: the first story
    failure_count: int = 0

    def take(self, other: "Summary") -> None:
        """Add another one up."""
        self.seed_count += other.seed_count
        self.event_count += other.event_count
        self.entry_count += other.entry_count
        self.sometimes.update(other.sometimes)
        self.failure_count += other.failure_count
        for seed, names in other.failures.items():
            if len(self.failures) < FAILURE_COUNT_MAX:
                self.failures[seed] = names
        for name, story in other.stories.items():
            self.stories.setdefault(name, story)

    def __str__(self) -> str:
        runs = f"{self.seed_count} seeds, {self.event_count} events"
        lines = [f"{runs}, {self.entry_count} entries acknowledged, {self.failure_count} failed"]
        lines += [f"{count:10} times  {name}" for name, count in sorted(self.sometimes.items())]
        lines += [f"seed {seed}: {', '.join(n)}" for seed, n in sorted(self.failures.items())]
        return "\n".join([*lines, *self.stories.values()])


def run_seeds(seeds: Iterable[int], parts: Callable[[], Parts] = Parts) -> Summary:
    """Run seeds in this process."""
    summary = Summary()
    for seed in seeds:
        summary.seed_count += 1
        try:
            with undisturbed():
                outcome = run_seed(seed, parts())
        except Exception:  # noqa: BLE001 - whatever it is, the other seeds are run
            summary.failure_count += 1
            summary.failures[seed] = ["exception"]
            summary.stories.setdefault("exception", f"seed {seed}: {traceback.format_exc()}")
            continue
        summary.event_count += outcome.event_count
        summary.entry_count += outcome.entry_count
        summary.sometimes.update(outcome.sometimes)
        if outcome.violations:
            summary.failure_count += 1
            summary.failures[seed] = sorted(outcome.names)
            for violation in outcome.violations:
                summary.stories.setdefault(violation.invariant, f"seed {seed}: {violation}")
    return summary


def run_on_all_cores(first: int, stop: int, job_count: int) -> Iterator[Summary]:
    """Run seeds in processes; yield a summary of each chunk as it ends."""
    starts = range(first, stop, CHUNK_COUNT)
    chunks = [(start, min(start + CHUNK_COUNT, stop)) for start in starts]
    with get_context("spawn").Pool(job_count, _prepare_process) as pool:
        yield from pool.imap_unordered(_run_chunk, chunks)


def _prepare_process() -> None:
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()  # the modules


def _run_chunk(chunk: tuple[int, int]) -> Summary:
    return run_seeds(range(*chunk))
