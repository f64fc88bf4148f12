"""Cases of many ledgers with one append unanswered in each: in one client, or in many."""

from typing import Final

from benchmarks import figures
from benchmarks.case import Amount, Case, PeerShape, Row, Step, at_least, rate_text, way

SECONDS: Final = 4
SIZE: Final = 100
"""Bytes of payload in an entry."""

GOALS: Final = {16: 5_000, 64: 10_000, 256: 15_000, 1_000: 16_000}
"""Entries a second, by ledgers."""

COUNTS: Final = (1, *GOALS, 10_000)
"""All points of the picture."""

THREAD_COUNT: Final = 16
THREADS_GOAL: Final = 5_000

PROCESS_COUNTS: Final = (1, 4, 16, 32)
"""All points of the picture."""

PROCESS_GOALS: Final = {16: 2_000}

FIGURES: Final = (
    "entries_per_s",
    "latency_p50_ms",
    "latency_p99_ms",
    "client_cpu_us_per_entry",
    "bookie_cpu_us_per_entry",
)


def _step(ledger_count: int, *words: str) -> Step:
    shape = ("write", "--type", "pd", "--size", str(SIZE), "--ledgers", str(ledger_count), *words)
    return Step("zbk", shape, (Amount("--seconds", SECONDS, "s"),))


def _row(title: str, goal: int, shape: PeerShape) -> Row:
    return Row(
        title=title,
        goal=f">= {rate_text(goal)} entries/s",
        step="zbk",
        unit="entries/s",
        zbk="entries_per_s",
        peer_shape=shape,
        peer_field="entries_per_s",
        ways=(way("figure", at_least("entries_per_s", goal)),),
    )


def outstanding(ledger_count: int) -> Case:
    """Return the case of one append unanswered in each ledger."""
    plural = "s" * (ledger_count > 1)
    title = f"an `append_async` unanswered in each of {ledger_count:,} ledger{plural}, PD, 100 B"
    goal = GOALS.get(ledger_count)
    shape = PeerShape(SIZE, "async", ledger_count)
    is_large = ledger_count > max(GOALS)
    return Case(
        name=f"ledgers-{ledger_count}",
        title=title,
        steps=(_step(ledger_count, "--api", "async", "--outstanding", "1"),),
        read=figures.fields(*FIGURES),
        rows=() if goal is None else (_row(title, goal, shape),),
        seconds=SECONDS + (90 if is_large else 4 + ledger_count // 150),
        round_count=None if goal is not None else 1,
    )


def threads() -> Case:
    """Return the case of threads with one ledger and one synchronous append each."""
    title = f"{THREAD_COUNT} threads of one client, a ledger and an `append` each, PD, 100 B"
    return Case(
        name=f"threads-{THREAD_COUNT}",
        title=title,
        steps=(_step(THREAD_COUNT, "--api", "sync"),),
        read=figures.fields(*FIGURES),
        rows=(_row(title, THREADS_GOAL, PeerShape(SIZE, "sync", THREAD_COUNT)),),
        seconds=SECONDS + 3,
    )


def processes(process_count: int) -> Case:
    """Return the case of client processes with one synchronous append each."""
    plural = "es" * (process_count > 1)
    title = f"{process_count} client process{plural}, an `append` each, PD, 100 B"
    goal = PROCESS_GOALS.get(process_count)
    shape = PeerShape(SIZE, "sync", process_count=process_count)
    return Case(
        name=f"processes-{process_count}",
        title=title,
        steps=(_step(1, "--api", "sync", "--processes", str(process_count)),),
        read=figures.fields(*FIGURES),
        rows=() if goal is None else (_row(title, goal, shape),),
        seconds=SECONDS + 5,
        round_count=None if goal is not None else 1,
    )
