"""Experiment: a ledger on three bookies beside one that stripes its entries over five.

Both write three copies of each entry to bookies of clusters of five, in turn. On one machine,
bookies share the cores, and five have no more of them than three. With ``bookie_cpu_percent`` each
bookie has a fixed part of a core, as if on a machine of its own; then each of the five gets three
fifths of the entries, and the ledger may be 5/3 as fast.
"""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec

from benchmarks.cpu_limit import limited_cpu
from zbk.bench.load import WriteLoad
from zbk.bench.write_load import run_write
from zbk.cli.bench.place import warm
from zbk.client.api import connect
from zbk.cluster.local import LocalCluster
from zbk.protocol.entry.words import LedgerType

WIDE: Final = 5
NARROW: Final = 3
BATCH_SIZE: Final = 1024 * 1024  # bytes of payload in one ``append_many``
TYPES: Final = (LedgerType.VD_JOURNAL, LedgerType.VD_BYPASS_JOURNAL)


class StripingLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What is written to each ledger."""

    entry_size: int = 16 * 1024  # bytes of payload
    entry_count: int = 10_000
    round_count: int = 3
    bookie_cpu_percent: int = 0  # of one core, that each bookie may use; 0: no limit


class StripingResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the experiment: MB of payload in a second; medians of the rounds.

    A ratio is 5/3/2 to 3/3/2, the median of the ratios within a round.
    """

    load: StripingLoad
    vd_narrow_mb_s: float
    vd_wide_mb_s: float
    vd_ratio: float
    bypass_narrow_mb_s: float
    bypass_wide_mb_s: float
    bypass_ratio: float


def run_striping(
    folder: Path, load: StripingLoad, *, on_progress: Callable[[str], None] = lambda _what: None
) -> StripingResult:
    """Write to narrow and to wide ledgers of each type, in turn.

    Raises:
        InvalidOptionError: the processor time of bookies cannot be limited here.
    """
    vd, bypass = (_rounds(folder, load, ledger_type, on_progress) for ledger_type in TYPES)
    return StripingResult(
        load=load,
        vd_narrow_mb_s=median(one.narrow for one in vd),
        vd_wide_mb_s=median(one.wide for one in vd),
        vd_ratio=median(one.wide / one.narrow for one in vd),
        bypass_narrow_mb_s=median(one.narrow for one in bypass),
        bypass_wide_mb_s=median(one.wide for one in bypass),
        bypass_ratio=median(one.wide / one.narrow for one in bypass),
    )


class _Rates(NamedTuple):
    narrow: float
    wide: float


def _rounds(
    folder: Path, load: StripingLoad, ledger_type: LedgerType, on_progress: Callable[[str], None]
) -> list[_Rates]:
    found = []
    for number in range(load.round_count):
        on_progress(f"round {number + 1} of {load.round_count}, {ledger_type}")
        sizes = (NARROW, WIDE) if number % 2 == 0 else (WIDE, NARROW)
        rates = {size: _rate(folder, load, ledger_type, size) for size in sizes}
        found.append(_Rates(rates[NARROW], rates[WIDE]))
    return found


def _rate(folder: Path, load: StripingLoad, ledger_type: LedgerType, ensemble_size: int) -> float:
    """Write one ledger in a new cluster: a used one has work left, and needs more memory."""
    percent = load.bookie_cpu_percent
    wanted = WriteLoad(
        entry_size=load.entry_size,
        entry_count=load.entry_count,
        batch_count=max(1, BATCH_SIZE // load.entry_size),
        ledger_type=ledger_type,
        ensemble_size=ensemble_size,
    )
    warm(folder, wanted)
    with LocalCluster(folder / "cluster", bookie_count=WIDE) as cluster:
        pids = [one.pid for one in cluster.bookies]
        limit = limited_cpu(pids, percent, "--bookie-cpu") if percent else nullcontext()
        with limit, connect(cluster.metadata_uri) as client:
            result = run_write(client, wanted)
    shutil.rmtree(folder / "cluster")
    return result.payload_mb_per_s
