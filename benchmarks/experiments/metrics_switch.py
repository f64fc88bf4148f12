"""A switch for the metrics of this process, and ``zbk bookie run`` with a route that turns it.

``python -m benchmarks.experiments.metrics_switch``: the bookie of the experiment ``metrics_cost``.
``GET /switch?metrics=off`` makes it observe no durations until ``?metrics=on``. Everything else of
the process stays as it is: plain counts of adds, the ages of what is not synced, and the choice
which lone requests are timed. With ``?metrics=count`` it also counts the calls of what metrics do.
The answer has the calls so far.

A turn changes variables and no class: where a class changes, the interpreter forgets what it has
optimized, and what metrics do would cost more just after each turn. So each function that the
switch turns is replaced once by one that looks at a variable, with metrics and without.
"""

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import click
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zbk.actors.process.bookie import Bookie
from zbk.actors.serve.journal_times import JournalTimes, Row
from zbk.auditor.bookie_process import run_bookie
from zbk.cli.config_options import server_options, start_server
from zbk.config import BookieConfig
from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import Deferred
from zbk.protocol.entry.words import LedgerType

LOOP_COUNT: Final = 7
CALL_COUNT: Final = 5_000

_SWITCHED: Final = ((Buckets, "observe"), (Deferred, "put"))
"""What metrics do beside the work itself, where it is a call."""

Mode: TypeAlias = Literal["on", "off", "count"]

_CALLS: Final[Counter[str]] = Counter()
_is_on = True
_is_counting = False


@contextmanager
def switchable() -> Iterator[None]:
    """Put the switch in, and turn it on; take it out at the end."""
    originals = [(place, name, getattr(place, name)) for place, name in _SWITCHED]
    for place, name, function in originals:
        setattr(place, name, _switched(f"{place.__name__}.{name}", function))
    switch_metrics("on")
    try:
        yield
    finally:
        for place, name, function in originals:
            setattr(place, name, function)


def switch_metrics(mode: Mode) -> dict[str, int]:
    """Turn the metrics of this process; return the calls that were counted so far, by name."""
    global _is_on, _is_counting
    _is_on, _is_counting = mode != "off", mode == "count"
    return dict(_CALLS)


def _switched(called: str, function: Any) -> Callable[..., Any]:  # noqa: ANN401
    def call(*given: Any) -> Any:  # noqa: ANN401 - those of the function
        if not _is_on:
            return None
        if _is_counting:
            _CALLS[called] += 1  # a thread's count may be lost to another's: seldom
        return function(*given)

    return call


class KeptTimes:
    """The times that the journals of a bookie keep, or that nothing keeps."""

    def __init__(self) -> None:
        self._kept: list[tuple[JournalTimes, Deferred[Row] | None]] = []

    def add(self, times: Iterable[JournalTimes]) -> None:
        """Turn those of journals that start, too."""
        self._kept += [(one, one.observed) for one in times]

    def turn(self, mode: Mode) -> None:
        """Make the journals keep times, or not."""
        for times, observed in self._kept:
            times.observed = None if mode == "off" else observed


def costs_of_calls_us() -> dict[str, float]:
    """Return the processor time that one call of each costs, by the names of counted calls.

    The cost of a row has that of its counting. The switch is in.
    """
    buckets, times = Buckets(), JournalTimes()
    observed, types = times.keep(), (LedgerType.PD_JOURNAL,)
    write_us = itertools.count(500)
    switch_metrics("on")
    return {
        "Buckets.observe": _call_us(lambda: buckets.observe(1_234)),
        "Deferred.put": _call_us(lambda: observed.put((8, 0, next(write_us), 5_678, types, 9_012))),
    }


def _call_us(call: Callable[[], object]) -> float:
    """Return the processor time of one call, the least of several loops."""
    times_ns = []
    for _ in range(LOOP_COUNT):
        begun_ns = time.process_time_ns()
        for _ in range(CALL_COUNT):
            call()
        times_ns.append(time.process_time_ns() - begun_ns)
    return min(times_ns) / CALL_COUNT / 1_000


def _times_of(bookie: Bookie) -> Iterator[JournalTimes]:
    actors = bookie._actors  # noqa: SLF001 - to turn what they keep
    assert actors is not None, "the bookie has started"
    return (queue.times for queue in actors.status.queues)


@click.command()
@server_options(BookieConfig)
def run(**options: Any) -> None:  # noqa: ANN401 - fields of BookieConfig
    """Serve until SIGTERM."""
    config = start_server(BookieConfig, options).config
    kept = KeptTimes()

    async def switch(request: Request) -> Response:
        mode: Any = request.query_params["metrics"]
        kept.turn(mode)
        return JSONResponse(switch_metrics(mode))

    with switchable():
        code = run_bookie(
            config,
            on_ready=lambda *_: None,
            on_started=lambda bookie: kept.add(_times_of(bookie)),
            more_routes=lambda _host: [Route("/switch", switch)],
        )
    sys.exit(code)


if __name__ == "__main__":
    run()
