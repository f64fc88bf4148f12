"""``python -m tests.scale --case ledgers --case restart``: measure, and say what holds."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from tests.scale import cases
from tests.scale.cases import Case, Size
from tests.scale.figures import MIB, Figure, table
from tests.scale.processes import processes
from zbk.protocol.entry.words import LedgerType

CASES: Final[dict[str, Case]] = {
    "ledgers": cases.ledgers,
    "long": cases.long,
    "restart": cases.restart,
    "idle": cases.idle,
    "processes": processes,
}


def main() -> int:
    """Run; return the exit code: 0 if every limit was kept."""
    options = _parse()
    how = Size(
        ledger_count=options.ledgers,
        entry_count=options.entries,
        seconds=options.seconds,
        rounds=options.rounds,
        journal_size=options.journal_mib * MIB,
        batch_count=options.batch,
        ledger_type=LedgerType(options.type),
    )
    figures: list[Figure] = []
    for name in options.case or CASES:
        folder = Path(tempfile.mkdtemp(prefix=f"zbk-scale-{name}-", dir=options.folder))
        try:
            figures += CASES[name](folder, how, _say)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        Path(options.json).write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    _say(table(figures))
    return 0 if all(one.is_kept for one in figures) else 1


def _parse() -> argparse.Namespace:
    how = Size()
    parser = argparse.ArgumentParser("python -m tests.scale", description="One bookie's limits.")
    parser.add_argument("--case", action="append", choices=list(CASES), help="by default all")
    parser.add_argument("--ledgers", type=int, default=how.ledger_count)
    parser.add_argument("--entries", type=int, default=how.entry_count, help="of the long ledger")
    parser.add_argument("--seconds", type=float, default=how.seconds, help="of each load")
    parser.add_argument("--rounds", type=int, default=how.rounds)
    parser.add_argument("--journal-mib", type=int, default=how.journal_size // MIB)
    parser.add_argument("--batch", type=int, default=how.batch_count, help="entries in a request")
    parser.add_argument("--type", choices=list(LedgerType), default=how.ledger_type)
    parser.add_argument("--folder", help="where bookies keep their files; default: a temporary one")
    parser.add_argument("--json", help="a file for the figures")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - it is a command


if __name__ == "__main__":
    sys.exit(main())
