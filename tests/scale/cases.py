"""The cases. Each runs bookies of its own below a folder and returns figures.

Rates are compared in one run and in turn, so that what else goes on on the machine hits both sides.
"""

import os
import random
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import cycle, repeat
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from tests.scale.figures import MIB, Figure, at_most, rate, share, size
from tests.scale.watch import Held, watching
from tests.scale.wire import Load, Rate, WireClient, in_turn
from zbk.cluster.local import LocalCluster
from zbk.config import BookieConfig
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_s

SHARE_MIN: Final = 0.85
RESTART_S_MAX: Final = 20.0
RSS_FLAT_MAX: Final = 1.25
LONG_BATCH_COUNT: Final = 1_000  # entries in a request
LONG_COMPARED_COUNT: Final = 1_000_000  # entries of the long ledger and of a fresh one
LONG_ID, FRESH_ID = 1, 2
TURNS: Final = 8
"""Of each side in a round: what else goes on on the machine is to hit both."""

STEP_S: Final = 0.25

PLACE_COUNT: Final = 200_000
DESCRIPTORS_BESIDE: Final = 100
"""Descriptors of a bookie that are no index files or entry logs: sockets, journal, libraries."""

STOPPED_HALF: Final = {"checkpoint_interval_ms": 60_000}
"""Of bookies that stand still half of the time: of 20,000 ledgers that are written all the time
there is a checkpoint each 30 s."""

NO_GC: Final = {"gc_interval_ms": 0}  # these ledgers are in no metadata


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    ledger_count: int = 20_000
    entry_count: int = 20_000_000
    seconds: float = 20.0  # of each load
    rounds: int = 3
    journal_size: int = 1024 * MIB
    batch_count: int = 10
    ledger_type: LedgerType = LedgerType.PD_JOURNAL


Say = Callable[[str], None]
Case = Callable[[Path, Size, Say], list[Figure]]


def ledgers(folder: Path, how: Size, say: Say) -> list[Figure]:
    """Many open ledgers against one fresh one, the same batches, in turn."""
    load = Load(batch_count=how.batch_count, ledger_type=how.ledger_type)
    many_ids = range(1, how.ledger_count + 1)
    pairs: list[tuple[Rate, Rate]] = []
    reads: list[tuple[Rate, Rate]] = []
    with (
        _bookie(folder / "many", load, STOPPED_HALF) as many,
        _bookie(folder / "one", load, STOPPED_HALF) as one,
    ):
        say(f"making {how.ledger_count} ledgers")
        made = many.client.add(many_ids)
        many.client.wait_quiet()
        order = iter(in_turn(many_ids))
        fresh_id = 0
        for number in range(how.rounds):
            fresh_id += 1
            left, right = _in_turns(
                how.seconds,
                partial(_add, many, one, order),
                partial(_add, one, many, repeat(fresh_id)),
            )
            say(f"round {number + 1}: adds to many {_line(left)}\n    to one {_line(right)}")
            pairs.append((left, right))
        many.client.wait_quiet()
        one.client.wait_quiet()
        many_places = _places(many.client, many_ids)
        one_places = _places(one.client, [fresh_id])
        for number in range(how.rounds):
            left, right = _in_turns(
                how.seconds / 2,
                lambda turn_s: many.client.read(many_places, seconds=turn_s),
                lambda turn_s: one.client.read(one_places, seconds=turn_s),
            )
            say(f"round {number + 1}: reads from many {_line(left)}\n    from one {_line(right)}")
            reads.append((left, right))
        many_log, many_held, one_held = many.log(), many.held, one.held
    config = BookieConfig()
    name = f"{how.ledger_count:,} ledgers"
    return [
        Figure(name, "first add to each", rate(made.entries_per_s)),
        Figure(name, "first add to each, p99 / max", _latency(made)),
        Figure(name, "adds, many / one", _both(pairs)),
        share(_share(pairs), SHARE_MIN, name, "adds, share of one fresh ledger's rate"),
        Figure(name, "adds, many, p99 / max", _latency(_slowest([left for left, _ in pairs]))),
        Figure(name, "adds, one, p99 / max", _latency(_slowest([right for _, right in pairs]))),
        Figure(name, "adds, bookie's CPU an entry, many / one", _cpu(pairs)),
        Figure(name, "reads, many / one", _both(reads)),
        share(_share(reads), SHARE_MIN, name, "reads, share of one fresh ledger's rate"),
        Figure(name, "bookie's RSS, many / one", _sizes(many_held, one_held)),
        at_most(
            many_held.file_count_max,
            config.open_files_max + DESCRIPTORS_BESIDE,
            "",
            name,
            "descriptors, highest",
        ),
        Figure(name, "lines of warning in the log", str(len(re.findall("WARN|ERROR", many_log)))),
    ]


def long(folder: Path, how: Size, say: Say) -> list[Figure]:
    """One long ledger; then its last million against a fresh one's first, in turn, and reads.

    Before that as long a one at a bookie whose index does not fit into its memory.
    """
    load = Load(batch_count=LONG_BATCH_COUNT, window=32, ledger_type=how.ledger_type)
    request_count = how.entry_count // LONG_BATCH_COUNT
    compared_count = min(LONG_COMPARED_COUNT, how.entry_count // 4) // LONG_BATCH_COUNT
    cache_size = 4 * how.entry_count  # full after half of the entries, of eight bytes each
    with _bookie(folder / "small", load, {"ledger_cache_size": cache_size}) as bookie:
        bookie.client.add(repeat(LONG_ID, request_count // 2))
        early_size = bookie.client.info().rss_size
        bookie.client.add(repeat(LONG_ID, request_count // 2))
        late_size = bookie.client.info().rss_size
    with _bookie(folder / "long", load) as bookie:
        client = bookie.client
        filled = client.add(repeat(LONG_ID, request_count - compared_count))
        say(f"filled: {_line(filled)}")
        adds, reads, rows = [], [], []
        for number in range(how.rounds):
            client.wait_quiet()
            left, right = (
                client.add(repeat(ledger_id, compared_count // how.rounds))
                for ledger_id in (LONG_ID, FRESH_ID)
            )
            say(f"round {number + 1}: adds to long {_line(left)}\n    to fresh {_line(right)}")
            adds.append((left, right))
        client.wait_quiet()
        last = client.last_entry_id(FRESH_ID)
        for number in range(how.rounds):
            left, right = (
                client.read(_scattered(client, ledger_id), seconds=how.seconds / 4)
                for ledger_id in (LONG_ID, FRESH_ID)
            )
            reads.append((left, right))
            first = random.randrange(0, client.last_entry_id(LONG_ID) - last)
            rows.append(
                (
                    client.read_until_end(LONG_ID, first, first + last),
                    client.read_until_end(FRESH_ID, 0, last),
                )
            )
            say(f"round {number + 1}: reads of long {_line(left)}\n    of fresh {_line(right)}")
        held = bookie.held
    name = f"one ledger of {how.entry_count:,} entries"
    return [
        Figure(name, "adds, long / fresh", _both(adds)),
        share(_share(adds), SHARE_MIN, name, "adds, share of a fresh ledger's rate"),
        Figure(name, "adds, p99 / max", _latency(_slowest([left for left, _ in adds]))),
        Figure(name, "random reads, long / fresh", _both(reads)),
        share(_share(reads), SHARE_MIN, name, "random reads, share of a fresh ledger's rate"),
        Figure(name, "reads in a row, long / fresh", _both(rows)),
        share(_share(rows), SHARE_MIN, name, "reads in a row, share of a fresh ledger's rate"),
        Figure(
            name,
            f"bookie's RSS after half / all, {size(cache_size)} of index in memory",
            f"{size(early_size)} / {size(late_size)}",
        ),
        at_most(late_size / early_size, RSS_FLAT_MAX, "times", name, "RSS, all to half"),
        at_most(
            held.file_count_max,
            BookieConfig().open_files_max + DESCRIPTORS_BESIDE,
            "",
            name,
            "descriptors, highest",
        ),
    ]


def restart(folder: Path, how: Size, say: Say) -> list[Figure]:
    """``kill -9`` with a journal that no checkpoint has covered: how long until it serves."""
    figures = []
    shapes = {"one ledger": (1, 1000), f"{how.ledger_count:,} ledgers": (how.ledger_count, 10)}
    for what, (ledger_count, batch_count) in shapes.items():
        load = Load(batch_count=batch_count, ledger_type=how.ledger_type)
        late = {
            "checkpoint_interval_ms": 3_600_000,
            "checkpoint_journal_size": 64 * 1024 * MIB,
            "ledger_cache_size": 1024 * MIB,  # or a nearly full one would begin a checkpoint
        }
        with _bookie(folder / f"restart{ledger_count}", load, late) as bookie:
            started_s = monotonic_s()
            order = iter(in_turn(range(1, ledger_count + 1)))
            while bookie.client.info().journal_write_size < how.journal_size:
                bookie.client.add(order, seconds=1.0)
            written = bookie.client.info()
            say(f"{what}: {size(written.journal_write_size)} in {monotonic_s() - started_s:.0f} s")
            bookie.cluster.kill(0)
            killed_s = monotonic_s()
            bookie.cluster.restart(0)
            took_s = monotonic_s() - killed_s
            bookie.client.reconnect()
            bookie.client.read([(1, 0)])
            found = re.findall(r"storage open: (.*)", bookie.log())[-1]
            say(f"    {took_s:.1f} s: {found}; mark was {written.last_log_mark}")
            rss_size = bookie.client.info().rss_size
        case = f"kill -9, {size(how.journal_size)} of journal"
        figures += [
            at_most(took_s, RESTART_S_MAX, "s", case, f"{what}: until it serves"),
            Figure(case, f"{what}: replayed", found.partition(" replayed")[0]),
            Figure(case, f"{what}: RSS then", size(rss_size)),
        ]
    return figures


def idle(folder: Path, how: Size, say: Say) -> list[Figure]:
    """Ledgers that nobody writes to: what the bookie and the client's writers cost."""
    figures = []
    costs = []
    for count in (0, 200, how.ledger_count):
        with _bookie(folder / f"idle{count}", Load()) as bookie:
            bookie.client.add(range(1, count + 1))
            bookie.client.wait_quiet()
            before_ms = bookie.client.info().cpu_ms
            threading.Event().wait(how.seconds)
            cost = (bookie.client.info().cpu_ms - before_ms) / how.seconds
            costs.append(cost)
            say(f"{count} idle ledgers: {cost:.1f} ms of CPU a second")
            figures.append(
                Figure("idle", f"bookie's CPU, {count:,} idle ledgers", f"{cost:.1f} ms/s")
            )
    return figures


class _Bookie(msgspec.Struct):
    cluster: LocalCluster
    client: WireClient
    held: Held

    def log(self) -> str:
        return (self.cluster.folder / "bookie0.log").read_text(errors="replace")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        pid = self.cluster.bookies[0].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def _bookie(
    folder: Path, load: Load, options: Mapping[str, int | str] | None = None
) -> Iterator[_Bookie]:
    cluster = LocalCluster(folder, bookie_count=1, bookie_options=NO_GC | dict(options or {}))
    with (
        cluster,
        WireClient(cluster, load) as client,
        watching(cluster.bookies[0].pid) as held,
    ):
        yield _Bookie(cluster, client, held)


def _places(client: WireClient, ledger_ids: "range | list[int]") -> Iterator[tuple[int, int]]:
    """Return places of batches as they were added, drawn before anything is measured.

    Ledgers lie interleaved in the entry logs.
    """
    step = client.load.batch_count
    drawn = [
        (ledger_id, random.randrange(0, client.last_entry_id(ledger_id), step))
        for ledger_id in random.choices(ledger_ids, k=PLACE_COUNT)
    ]
    return cycle(drawn)


def _scattered(client: WireClient, ledger_id: int) -> Iterator[tuple[int, int]]:
    """Yield places anywhere in a ledger."""
    last = client.last_entry_id(ledger_id)
    while True:
        yield ledger_id, random.randrange(0, last - client.load.batch_count)


def _add(bookie: _Bookie, other: _Bookie, ledger_ids: Iterator[int], seconds: float) -> Rate:
    """Add for so long, and on until no checkpoint runs.

    The other bookie stands still: each side's checkpoints are paid for by its own adds.
    """
    with other.stopped():
        parts = [bookie.client.add(ledger_ids, seconds=seconds)]
        while bookie.client.info().is_checkpointing:
            parts.append(bookie.client.add(ledger_ids, seconds=STEP_S))
    return _joined(parts)


def _in_turns(
    seconds: float, left: Callable[[float], Rate], right: Callable[[float], Rate]
) -> tuple[Rate, Rate]:
    """Run two loads for so long each, a part of each in turn."""
    pairs = [(left(seconds / TURNS), right(seconds / TURNS)) for _ in range(TURNS)]
    return _joined([one for one, _ in pairs]), _joined([one for _, one in pairs])


def _joined(parts: list[Rate]) -> Rate:
    """Return several rates as one; its latency is that of the slowest."""
    entry_count = sum(one.entry_count for one in parts)
    seconds = sum(one.seconds for one in parts)
    return Rate(
        request_count=sum(one.request_count for one in parts),
        entry_count=entry_count,
        seconds=seconds,
        entries_per_s=entry_count / seconds,
        bookie_cpu_us_per_entry=sum(one.bookie_cpu_us_per_entry * one.entry_count for one in parts)
        / entry_count,
        latency=_slowest(parts).latency,
    )


def _share(pairs: list[tuple[Rate, Rate]]) -> float:
    return median(left.entries_per_s / right.entries_per_s for left, right in pairs)


def _both(pairs: list[tuple[Rate, Rate]]) -> str:
    lefts = median(left.entries_per_s for left, _ in pairs)
    return f"{rate(lefts)} / {rate(median(right.entries_per_s for _, right in pairs))}"


def _cpu(pairs: list[tuple[Rate, Rate]]) -> str:
    left = median(left.bookie_cpu_us_per_entry for left, _ in pairs)
    return f"{left:.1f} / {median(right.bookie_cpu_us_per_entry for _, right in pairs):.1f} us"


def _slowest(rates: list[Rate]) -> Rate:
    return max(rates, key=lambda one: one.latency.p99_ms)


def _latency(one: Rate) -> str:
    return f"{one.latency.p99_ms:,.0f} / {one.latency.max_ms:,.0f} ms"


def _sizes(many: Held, one: Held) -> str:
    return f"{size(many.rss_size_max)} / {size(one.rss_size_max)}"


def _line(one: Rate) -> str:
    return (
        f"{rate(one.entries_per_s)}, p50 {one.latency.p50_ms:.0f} p99 {one.latency.p99_ms:.0f} "
        f"max {one.latency.max_ms:.0f} ms, {one.bookie_cpu_us_per_entry:.1f} us/entry"
    )
