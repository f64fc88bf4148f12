"""``python -m tests.simulation.choose``: print the tables of ``chosen_seeds``.

--known               for each defect of `make test` a seed that shows it, with few events
--covering A:B        of these seeds a few that reach each dangerous place in several runs

A known seed that shows its defect within ``EVENT_COUNT_MAX`` events is kept.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from multiprocessing import Pool
from typing import Final

import msgspec

from tests.simulation.chosen_seeds import KNOWN_SEEDS
from tests.simulation.defects import DEFECTS
from tests.simulation.run import run_seed
from tests.simulation.seed_tests import DANGEROUS_PLACES
from tests.simulation.undisturbed import undisturbed

EVENT_COUNT_MAX: Final = 25_000
HIT_COUNT: Final = 4
"""Of so many seeds that show a defect, the one with the fewest events is chosen."""

RUN_COUNT: Final = 5
"""Each dangerous place is reached in so many of the covering runs."""


class Run(msgspec.Struct, frozen=True):
    """A seed, what it costs, and the dangerous places that it reaches."""

    seed: int
    event_count: int
    places: frozenset[str]


def known_seed(code: str) -> int | None:
    """Return a seed that shows a defect and no violation without it, or None if none does."""
    defect = DEFECTS[code]
    shown: list[tuple[int, int]] = []
    known = [KNOWN_SEEDS[defect.code]] if defect.code in KNOWN_SEEDS else []
    for seed in (*known, *range(defect.seed_count)):
        with undisturbed():
            outcome = defect.run(seed)
        if outcome.violations and not _is_violated(seed):
            shown.append((outcome.event_count, seed))
            if outcome.event_count <= EVENT_COUNT_MAX or len(shown) == HIT_COUNT:
                break
    return min(shown)[1] if shown else None


def _is_violated(seed: int) -> bool:
    with undisturbed():
        return bool(run_seed(seed).violations)


def runs_of(seeds: Iterable[int]) -> Iterator[Run]:
    """Yield each seed's run."""
    for seed in seeds:
        with undisturbed():
            outcome = run_seed(seed)
        yield Run(seed, outcome.event_count, frozenset(outcome.sometimes) & set(DANGEROUS_PLACES))


def covering(runs: Iterable[Run]) -> list[int]:
    """Return seeds that reach each place in ``RUN_COUNT`` runs, or in as many as there are."""
    left = list(runs)
    there = Counter(place for run in left for place in run.places)
    needed = {place: min(RUN_COUNT, count) for place, count in there.items()}
    chosen: list[int] = []
    while any(needed.values()):
        best = max(left, key=lambda run: sum(needed[p] > 0 for p in run.places) / run.event_count)
        left.remove(best)
        chosen.append(best.seed)
        for place in best.places:
            needed[place] = max(0, needed[place] - 1)
    return sorted(chosen)


def main() -> None:
    """Parse, choose, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.choose")
    parser.add_argument("--known", action="store_true", help="choose seeds of defects")
    parser.add_argument("--covering", metavar="A:B", help="choose of these seeds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes of --known")
    arguments = parser.parse_args()
    if arguments.known:
        fast = [code for code, defect in DEFECTS.items() if defect.is_fast]
        with Pool(arguments.jobs) as pool:
            for code, seed in zip(fast, pool.imap(known_seed, fast, chunksize=1), strict=True):
                sys.stdout.write(f'"{code}": {seed}, ')
                sys.stdout.flush()
        sys.stdout.write("\n")
    if arguments.covering:
        first, _, stop = arguments.covering.partition(":")
        sys.stdout.write(f"{covering(runs_of(range(int(first), int(stop))))}\n")


if __name__ == "__main__":
    main()
