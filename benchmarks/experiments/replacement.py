"""Experiment: how long a writer at full speed stands still when one of its bookies is killed.

A ledger has three of the bookies of a temporary cluster, and one is spare. A client appends as fast
as it may, and one of the three is killed. The writer puts the spare bookie in its place. Types of
ledgers take turns, round by round, in one cluster; the killed bookie starts again after each round.

Words: a *stall* is the longest time without an acknowledgement, from the kill until
``AFTER_S`` after the metadata name another bookie. ``usual_ms`` is the longest time without one in
as much time before the kill.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from zbk.client.api import Client, connect
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.cluster.local import LocalCluster
from zbk.errors import RequestTimeoutError
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_s

BATCH_SIZE: Final = 256 * 1024  # bytes of payload in one ``append_many``
WINDOW_COUNT: Final = 16  # such batches that are not acknowledged
WARM_S: Final = 1.5
AFTER_S: Final = 1.0
LOOK_INTERVAL_S: Final = 0.005
TIMEOUT_S: Final = 60.0
TYPES: Final = (LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL)


class ReplacementLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What is written while bookies are killed."""

    entry_size: int = 16 * 1024  # bytes of payload
    round_count: int = 5  # of each type
    ack_size: int = 2  # of three


class ReplacementResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the experiment: medians over the rounds, and each round's stall."""

    load: ReplacementLoad
    pd_stall_ms: float
    vd_stall_ms: float
    stall_ratio: float  # VD / PD
    pd_usual_ms: float
    vd_usual_ms: float
    pd_change_ms: float  # from the kill until the metadata name another bookie
    vd_change_ms: float
    pd_stalls_ms: tuple[float, ...]
    vd_stalls_ms: tuple[float, ...]


class _Round(msgspec.Struct, frozen=True):
    stall_ms: float
    usual_ms: float
    change_ms: float


def run_replacement(
    folder: Path,
    load: ReplacementLoad,
    *,
    use_zookeeper: bool = False,
    on_progress: Callable[[str], None] = lambda _what: None,
) -> ReplacementResult:
    """Kill a bookie under a writer, round by round, of PD and VD ledgers in turn.

    Raises:
        RequestTimeoutError: no acknowledgement, or no other bookie, in ``TIMEOUT_S`` seconds.
    """
    rounds: dict[LedgerType, list[_Round]] = {one: [] for one in TYPES}
    with LocalCluster(folder / "cluster", bookie_count=4, use_zookeeper=use_zookeeper) as cluster:
        for number in range(load.round_count):
            for ledger_type in TYPES:
                on_progress(f"round {number + 1} of {load.round_count}, {ledger_type}")
                # a client avoids bookies that it has seen fail
                with closing(connect(cluster.metadata_uri)) as client:
                    rounds[ledger_type].append(_round(cluster, client, load, ledger_type))
    return _result(load, rounds)


def _result(load: ReplacementLoad, rounds: dict[LedgerType, list[_Round]]) -> ReplacementResult:
    pd, vd = (rounds[one] for one in TYPES)
    pd_stall_ms, vd_stall_ms = (median(one.stall_ms for one in found) for found in (pd, vd))
    return ReplacementResult(
        load=load,
        pd_stall_ms=pd_stall_ms,
        vd_stall_ms=vd_stall_ms,
        stall_ratio=vd_stall_ms / pd_stall_ms,
        pd_usual_ms=median(one.usual_ms for one in pd),
        vd_usual_ms=median(one.usual_ms for one in vd),
        pd_change_ms=median(one.change_ms for one in pd),
        vd_change_ms=median(one.change_ms for one in vd),
        pd_stalls_ms=tuple(one.stall_ms for one in pd),
        vd_stalls_ms=tuple(one.stall_ms for one in vd),
    )


def _round(
    cluster: LocalCluster, client: Client, load: ReplacementLoad, ledger_type: LedgerType
) -> _Round:
    with client.create_ledger(
        ensemble_size=3,
        write_quorum_size=3,
        ack_quorum_size=load.ack_size,
        ledger_type=ledger_type,
    ) as ledger:
        victim_id = ledger.metadata.last_fragment.bookies[-1]
        (victim,) = (one for one in cluster.bookies if one.bookie_id == victim_id)
        with _appending(ledger, load) as acked_s:
            pause = threading.Event()
            pause.wait(WARM_S)
            killed_s = monotonic_s()
            cluster.kill(victim.index)
            while victim_id in ledger.metadata.last_fragment.bookies:
                if monotonic_s() > killed_s + TIMEOUT_S:
                    raise RequestTimeoutError("another bookie in the ensemble", TIMEOUT_S)
                pause.wait(LOOK_INTERVAL_S)
            changed_s = monotonic_s()
            pause.wait(AFTER_S)
        end_s = changed_s + AFTER_S
    cluster.restart(victim.index)
    return _Round(
        stall_ms=longest_gap_ms(acked_s, killed_s, end_s),
        usual_ms=longest_gap_ms(acked_s, killed_s - (WARM_S - 0.5), killed_s),
        change_ms=1000 * (changed_s - killed_s),
    )


def longest_gap_ms(times_s: Sequence[float], begin_s: float, end_s: float) -> float:
    """Return the longest time between events in a period, with its begin and its end as events.

    >>> longest_gap_ms([0.5, 1.25, 2.0, 5.0], 1.0, 3.0)
    1000.0
    """
    inside = [begin_s, *(at_s for at_s in times_s if begin_s < at_s < end_s), end_s]
    return max(1000 * (later_s - earlier_s) for earlier_s, later_s in pairwise(inside))


@contextmanager
def _appending(ledger: LedgerWriter, load: ReplacementLoad) -> Iterator[list[float]]:
    """Append in a thread as fast as the writer takes it; yield the times of acknowledgements."""
    batch = [os.urandom(load.entry_size)] * max(1, BATCH_SIZE // load.entry_size)
    acked_s: list[float] = []
    failures: list[BaseException] = []
    stop = threading.Event()
    room = threading.BoundedSemaphore(WINDOW_COUNT)

    def acked(future: "Future[range]") -> None:
        error = future.exception()
        if error is None:
            acked_s.append(monotonic_s())
        else:
            failures.append(error)
        room.release()

    def append() -> None:
        while not stop.is_set() and not failures:
            if not room.acquire(timeout=TIMEOUT_S):
                failures.append(RequestTimeoutError("an acknowledgement", TIMEOUT_S))
                return
            ledger.append_many(batch, timeout=TIMEOUT_S).add_done_callback(acked)

    thread = threading.Thread(target=append, name="zbk-bench-writer")
    thread.start()
    try:
        yield acked_s
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
