"""Cases of readers: end to end, tailing, after the death of a writer, or of a bookie."""

from benchmarks import figures
from benchmarks.case import Amount, Case, Row, Step, at_least, at_most, rate_text, size_text, way


def read(size: int, count: int, goal: int, *, is_batches: bool, is_cold: bool) -> Case:
    """Return the case of reading from end to end; ``goal`` in entries a second."""
    call, cache = "read_batches" if is_batches else "read", "cold" if is_cold else "warm"
    flags = (*(["--batches"] if is_batches else []), *(["--cold"] if is_cold else []))
    row = Row(
        title=f"`{call}`, {size_text(size)}, {cache} cache",
        goal=f">= {rate_text(goal)} entries/s",
        step="zbk",
        unit="entries/s",
        zbk="entries_per_s",
        ways=(way("figure", at_least("entries_per_s", goal)),),
    )
    return Case(
        name=f"{call.replace('_', '-')}-{size}-{cache}",
        title=row.title,
        steps=(Step("zbk", ("read", "--size", str(size), *flags), (Amount("--count", count),)),),
        read=figures.fields("entries_per_s", "payload_mb_per_s", "client_cpu_us_per_entry"),
        rows=(row,),
        seconds=8 if is_cold else 6,
    )


def tail() -> Case:
    """Return the case of a reader that follows a writer."""
    row = Row(
        title="a tailing reader has an entry after its acknowledgement, p50",
        goal="<= 5 ms",
        step="zbk",
        unit="ms",
        zbk="latency_p50_ms",
        ways=(way("figure", at_most("latency_p50_ms", 5.0)),),
    )
    return Case(
        name="tail",
        title="tailing a ledger that grows by 1,000 entries a second",
        steps=(Step("zbk", ("tail", "--rate", "1000"), (Amount("--count", 4_000),)),),
        read=figures.fields(
            "latency_p50_ms", "latency_p99_ms", "latency_max_ms", "seen_before_ack_count"
        ),
        rows=(row,),
        seconds=8,
    )


def recovery() -> Case:
    """Return the case of a ledger whose writer died with adds unanswered."""
    words = ("recovery", "--outstanding", "1000")
    row = Row(
        title="recovery of 1 million entries, 1,000 adds outstanding",
        goal="< 0.4 s",
        step="zbk",
        unit="s",
        zbk="seconds",
        ways=(way("figure", at_most("seconds", 0.4)),),
    )
    return Case(
        name="recovery",
        title=row.title,
        steps=(
            Step("zbk", words, (Amount("--count", 1_000_000, least=100_000),), is_experiment=True),
        ),
        read=figures.fields("seconds", "entry_count", "acknowledged_count"),
        rows=(row,),
        seconds=6,
    )


def restart() -> Case:
    """Return the case of a bookie that is killed with much journal after its last checkpoint."""
    row = Row(
        title="restart after kill -9 with 500 MiB of journal, until a read is served",
        goal="<= 3.5 s",
        step="zbk",
        unit="s",
        zbk="seconds_until_read",
        ways=(way("figure", at_most("seconds_until_read", 3.5)),),
    )
    return Case(
        name="restart",
        title=row.title,
        steps=(Step("zbk", ("restart",), (Amount("--journal", 500, "MiB"),), is_experiment=True),),
        read=figures.fields(
            "seconds_until_read", "seconds_until_registered", "journal_size", "replayed_entry_count"
        ),
        rows=(row,),
        seconds=9,
    )
