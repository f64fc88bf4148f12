"""Cases of costs that must not grow: with other writers and ledgers, with length, with time."""

from typing import Final

from benchmarks import figures
from benchmarks.appends import slow_step, write_step
from benchmarks.case import Amount, Bound, Case, Row, Step, Way, at_least, at_most, rate_text, way
from zbk.config import BookieConfig, ClientConfig

MIB: Final = 1 << 20

BACKLOG_SIZE_MAX: Final = ClientConfig().backlog_size + ClientConfig().batch_size_max
"""One message may exceed the limit."""

RSS_GROWN_SHARE_MAX: Final = 0.05
RSS_GROWN_SIZE_MAX: Final = 8 * MIB
"""Memory is flat if it grows by less than this size, or by less than this share."""

FULL_CACHE_COUNT: Final = BookieConfig().ledger_cache_size // 8 + 1_000_000
"""With eight bytes of index per entry, a bookie's memory grows up to this entry, to a set limit."""

MEMORY_COUNT: Final = 42_000_000
assert MEMORY_COUNT > 1.2 * FULL_CACHE_COUNT, "many entries are written to a full cache"

LONG_LEDGER_BATCH_COUNT: Final = 50
"""Small calls, so that the first million entries take about one sample interval."""

LONG_RUN_ROLL_COUNT: Final = 5_000_000


def beside() -> Case:
    """Return the case of one writer alone, and beside other load that must cost it little."""
    count = 4_000_000  # with fewer, the first moments would be a large part
    idle = (
        way("ratio", at_least("idle_share", 0.97)),
        way("spread", Bound("idle", lowest_of="alone")),
    )
    rows = (
        _share("eight writers on eight ledgers, together", "eight", "85 %", (
            way("ratio", at_least("eight_share", 0.85)),
        )),
        _share("a writer beside 200 idle ledgers", "idle", "97 %, or within the spread", idle),
        _share("a writer with a slow bookie (fsync + 50 ms)", "slow", "80 %", (
            way("ratio", at_least("slow_share", 0.8)),
        )),
        Row(
            title="... what is held for the slow bookie",
            goal=f"<= {BACKLOG_SIZE_MAX // MIB} MiB: the client's limit and a message",
            step="slow",
            unit="MiB",
            zbk="backlog_size",
            ways=(way("figure", at_most("backlog_size", BACKLOG_SIZE_MAX)),),
        ),
    )  # fmt: skip
    return Case(
        name="beside",
        title="one writer alone, eight at once, beside idle ledgers, with a slow bookie",
        steps=(
            write_step("pd", count, name="alone"),
            write_step("pd", count, "--ledgers", "8", name="eight"),
            write_step("pd", count, "--idle-ledgers", "200", name="idle"),
            slow_step("pd", "--slow-bookie", "50ms", amount=Amount("--count", count), name="slow"),
        ),
        read=figures.beside,
        rows=rows,
        seconds=33,
    )


def _share(title: str, step: str, least: str, ways: tuple[Way, ...]) -> Row:
    return Row(
        title=title,
        goal=f">= {least} of one writer alone, in turn",
        step=step,
        unit="entries/s",
        zbk=step,
        floor="alone",
        ratio=f"{step}_share",
        ways=ways,
    )


def length() -> Case:
    """Return the case of a ledger of 11 million entries."""
    rows = (
        Row(
            title="rate around entry 10 M (to that from 100 k to 1 M)",
            goal=">= 95 %",
            step="zbk",
            unit="entries/s",
            zbk="late_entries_per_s",
            floor="early_entries_per_s",
            ratio="late_share",
            ways=(way("ratio", at_least("late_share", 0.95)),),
        ),
    )
    batch = ("--batch", str(LONG_LEDGER_BATCH_COUNT), "--samples")
    return Case(
        name="length",
        title="one ledger of 11 million entries of 100 B, PD",
        steps=(write_step("pd", 11_000_000, *batch),),
        read=figures.length,
        rows=rows,
        seconds=22,
        round_count=2,
    )


def memory() -> Case:
    """Return the case of a ledger whose index fills the bookies' cache."""
    rows = tuple(
        Row(
            title=f"memory of {who}, grown from entry {rate_text(FULL_CACHE_COUNT)} on",
            goal=f"<= {RSS_GROWN_SHARE_MAX:.0%}, or <= {RSS_GROWN_SIZE_MAX // MIB} MiB",
            step="zbk",
            unit="MiB",
            zbk=f"{field}_grown",
            ways=(
                way("share", at_most(f"{field}_grown_share", RSS_GROWN_SHARE_MAX)),
                way("figure", at_most(f"{field}_grown", RSS_GROWN_SIZE_MAX)),
            ),
        )
        for who, field in (
            ("the client", "client_rss_size"),
            ("the largest bookie", "bookie_rss_size_max"),
        )
    )
    return Case(
        name="memory",
        title=f"memory over a ledger of {MEMORY_COUNT // 1_000_000} million entries of 10 B, PD",
        steps=(write_step("pd", MEMORY_COUNT, "--samples", size=10),),
        read=figures.memory(FULL_CACHE_COUNT / MEMORY_COUNT),
        rows=rows,
        seconds=32,
        round_count=1,
    )


def long_run(seconds: int) -> Case:
    """Return the case of a long run that continues from ledger to ledger."""
    words = ("write", "--size", "1024", "--roll", str(LONG_RUN_ROLL_COUNT), "--samples")
    return Case(
        name="long-run",
        title="throughput over time, PD, 1 KiB, from ledger to ledger",
        steps=(Step("zbk", words, (Amount("--seconds", seconds, "s"),)),),
        read=figures.long_run,
        seconds=seconds + 6,
        round_count=1,
    )
