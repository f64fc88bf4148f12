"""``python -m tests.soak.mixed --minutes 60 --report FILE.json``: a long run, and its verdict."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.soak.mixed.campaign import Settings, run
from tests.soak.mixed.payloads import MIB
from tests.soak.mixed.picture import draw
from tests.soak.mixed.report import markdown
from zbk.system.memory import use_one_arena


def main() -> int:
    """Run; return the exit code: 0 if nothing that is demanded is missing."""
    use_one_arena()  # as README tells a program that runs for days
    options = _parse()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken down
    scratch = Path(tempfile.mkdtemp(prefix="zbk-soak-", dir=options.folder))
    _say(f"seed {seed}, {options.minutes:g} minutes, in {scratch}")
    report = run(
        Settings(
            seed=seed,
            seconds=options.minutes * 60,
            is_sqlite=options.sqlite,
            rate_size=round(options.rate_mib * MIB),
            live_size_max=options.live_mib * MIB,
            kill_interval_s=options.kill_seconds,
        ),
        scratch / "cluster",
        _say,
    )
    if options.report is not None:
        options.report.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
        draw(report.samples, options.report.with_suffix(".svg"))
    _say(f"\n{markdown(report)}")
    for failure in report.failures:
        _say(f"\nFAILED: {failure}")
    if report.failures:
        _say(f"\nlogs and directories are kept in {scratch}")
        return 1
    shutil.rmtree(scratch, ignore_errors=True)
    _say("\nPASSED")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.soak.mixed", description="One long run.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--report", type=Path, help="where to write it as JSON; memory as .svg")
    parser.add_argument("--seed", type=int, help="of all choices; drawn and printed if not given")
    parser.add_argument("--sqlite", action="store_true", help="metadata in SQLite")
    parser.add_argument("--folder", type=Path, help="where to make the cluster's folder")
    parser.add_argument("--rate-mib", type=float, default=3.0, help="payload written a second")
    parser.add_argument("--live-mib", type=int, default=256, help="entries kept, all copies")
    parser.add_argument("--kill-seconds", type=float, default=30.0, help="between two kills")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - it is a command


if __name__ == "__main__":
    sys.exit(main())
