"""``python -m tests.chaos --minutes 5 --seed N``: rounds until the time is over, and a verdict."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos import firewall
from tests.chaos.campaign import Settings, run
from tests.chaos.verdict import Verdict, verdict_of

STORY_COUNT_MAX = 5  # shown; one breach is often seen in many ways


def main() -> int:
    """Run; return the exit code: that of the ``Verdict``."""
    options = _parse()
    reason = firewall.why_not() if options.partitions else ""
    if reason:
        _say(f"skipped: partitions between network namespaces: {reason}")
        return Verdict.KEPT
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken down
    folder = Path(tempfile.mkdtemp(prefix="zbk-chaos-"))
    _say(f"seed {seed}, {options.minutes:g} minutes, in {folder}")
    report = run(
        Settings(
            seed=seed,
            seconds=options.minutes * 60,
            round_seconds=options.round_seconds,
            can_zookeeper=not options.sqlite,
            can_namespaces=not options.proxies,
            can_power=not options.no_power,
            is_partitioned=options.partitions,
        ),
        folder,
        _say,
    )
    for text in [*report.violations, *report.troubles][:STORY_COUNT_MAX]:
        _say(f"\n{text}")
    verdict = verdict_of(report.violations, report.troubles)
    match verdict:
        case Verdict.KEPT:
            shutil.rmtree(folder, ignore_errors=True)
            _say("\nKEPT: every promise that was checked")
        case Verdict.VIOLATED:
            count = len(report.violations)
            _say(f"\nVIOLATED, {count} times; histories and logs are kept in {folder}")
        case Verdict.HARNESS_FAILED:
            _say(f"\nHARNESS FAILED: nothing is proved either way; logs are kept in {folder}")
    return verdict


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.chaos", description="Real faults.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, help="of the faults; drawn and printed if not given")
    parser.add_argument("--round-seconds", type=float, default=15.0, help="of faults in a round")
    parser.add_argument("--sqlite", action="store_true", help="metadata in SQLite")
    parser.add_argument("--proxies", action="store_true", help="no network namespaces")
    parser.add_argument("--no-power", action="store_true", help="no power loss")
    parser.add_argument(
        "--partitions",
        action="store_true",
        help="firewalls between ZooKeeper, bookies, autorecovery and two clients (root)",
    )
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - it is a command


if __name__ == "__main__":
    sys.exit(main())
