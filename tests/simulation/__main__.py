"""``python -m tests.simulation``: run seeds, replay one, shrink a failure.

--seed N [--trace] [--shrink] [--defect NAME]     one run, as it was
--seeds A:B [--jobs J]                             many; N is 0:N
--seeds A:B --defect NAME                          until one shows the defect
"""

import argparse
import logging
import os
import sys
import time

from tests.simulation.campaign import Summary, run_on_all_cores
from tests.simulation.defects import DEFECTS, Defect
from tests.simulation.run import run_seed
from tests.simulation.shrink import shrink
from tests.simulation.sources import digest_of, simulated_files
from tests.simulation.world import Parts


def main() -> int:
    """Parse, run, print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--shrink", action="store_true", help="look for the shortest such run")
    parser.add_argument("--defect", choices=sorted(DEFECTS), help="with this defect put in")
    parser.add_argument("--seeds", default="1000", help="A:B, or N for 0:N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    defect = DEFECTS[arguments.defect] if arguments.defect else Defect("", "none", 0)
    if arguments.seed is None:
        seeds = _range_of(arguments.seeds)
        return _look_for(defect, seeds) if arguments.defect else _run_many(seeds, arguments.jobs)
    with defect.put_in():
        return _run_one(
            arguments.seed, defect.parts, is_traced=arguments.trace, is_shrunk=arguments.shrink
        )


def _range_of(seeds: str) -> range:
    first, _, stop = seeds.rpartition(":")
    return range(int(first or 0), int(stop))


def _look_for(defect: Defect, seeds: range) -> int:
    for seed in seeds:
        outcome = defect.run(seed)
        if outcome.violations:
            sys.stdout.write(f"seed {seed}: {', '.join(sorted(outcome.names))}\n")
            return 1
    sys.stdout.write(f"{len(seeds)} seeds, none shows it: {defect.text}\n")
    return 0


def _run_many(seeds: range, job_count: int) -> int:
    start, end = seeds.start, seeds.stop
    began_s = time.monotonic()
    total = Summary()
    for part in run_on_all_cores(start, end, job_count):
        total.take(part)
        for story in part.stories.values():  # a long campaign is looked into before its end
            sys.stderr.write(f"\r{story}\n")
        elapsed_s = time.monotonic() - began_s
        rate = total.seed_count / elapsed_s
        left_s = (end - start - total.seed_count) / rate
        text = f"{total.seed_count}/{end - start} seeds, {rate:.0f}/s, {left_s:.0f} s left"
        sys.stderr.write(f"\r{text}, {total.failure_count} failed ")
    sys.stderr.write("\n")
    elapsed_s = time.monotonic() - began_s
    sys.stdout.write(f"{total}\n{elapsed_s:.0f} s on {job_count} processes\n")
    files = simulated_files()
    sys.stdout.write(f"sources {digest_of(files)}, {len(files)} files\n")
    return 1 if total.failure_count else 0


def _run_one(seed: int, parts: type[Parts], *, is_traced: bool, is_shrunk: bool) -> int:
    outcome = run_seed(seed, parts(), is_traced=is_traced)
    if is_shrunk and outcome.violations:
        recorded = shrink(outcome, parts, progress=lambda text: sys.stderr.write(f"\r{text} "))
        sys.stderr.write("\n")
        outcome = run_seed(seed, parts(), recorded=recorded, is_traced=True)
        sys.stdout.write(f"tape = {recorded}\n")
    for line in outcome.lines:
        sys.stdout.write(f"{line}\n")
    for violation in outcome.violations:
        sys.stdout.write(f"{violation}\n\n")
    sys.stdout.write(
        f"seed {seed}: trace {outcome.trace_hash:08x}, {outcome.event_count} events, "
        f"{len(outcome.tape)} decisions, {outcome.entry_count} entries acknowledged, "
        f"{', '.join(sorted(outcome.names)) or 'clean'}\n"
    )
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
