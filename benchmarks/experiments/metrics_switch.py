"""A switch for the metrics of this process, and ``zbk bookie run`` with a route that turns it.

``python -m benchmarks.experiments.metrics_switch``: the bookie of the experiment ``metrics_cost``.
``GET /switch?metrics=off`` makes it observe no durations, and read no clock for them, until
``?metrics=on``. Everything else of the process stays as it is, plain counts of adds too. With
``?metrics=count`` it also counts the calls of what metrics do. The answer has the calls so far.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

import click
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from zbk.actors.serve import journal, read, storage_door
from zbk.auditor.bookie_process import run_bookie
from zbk.cli.config_options import server_options, start_server
from zbk.config import BookieConfig
from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import ROW_COUNT_MAX, Deferred
from zbk.system.clock import monotonic_ns

LOOP_COUNT: Final = 7
CALL_COUNT: Final = 5_000


def _nothing(*_: object) -> None:
    """Do nothing."""


CLOCKS: Final = (storage_door, journal, read)
"""Where clocks are read for metrics only."""

_OFF: Final[tuple[tuple[type | ModuleType, str, Any], ...]] = (
    (Buckets, "observe", _nothing),
    (Buckets, "observe_all", _nothing),
    (Buckets, "observe_none", _nothing),
    (Deferred, "put", _nothing),
    *((place, "monotonic_ns", int) for place in CLOCKS),  # 0 is "not known", and ``int`` is quick
)
"""What metrics do beside the work itself, and what stands there without them."""

_ON: Final = tuple((place, name, getattr(place, name)) for place, name, _ in _OFF)


Mode: TypeAlias = Literal["on", "off", "count"]

_CALLS: Final[Counter[str]] = Counter()


def switch_metrics(mode: Mode) -> dict[str, int]:
    """Turn the metrics of this process; return the calls that were counted so far, by name."""
    for place, name, function in _OFF if mode == "off" else _ON:
        setattr(place, name, _counting(place, name, function) if mode == "count" else function)
    return dict(_CALLS)


def _called(place: type | ModuleType, name: str = "monotonic_ns") -> str:
    return f"{place.__name__.rpartition('.')[2]}.{name}"


def _counting(place: type | ModuleType, name: str, function: Any) -> Callable[..., Any]:  # noqa: ANN401
    called = _called(place, name)

    def call(*given: Any) -> Any:  # noqa: ANN401 - those of the function
        _CALLS[called] += 1  # a thread's count may be lost to another's: seldom
        return function(*given)

    return call


def costs_of_calls_us() -> dict[str, float]:
    """Return the processor time that one call of each costs, by the names of counted calls."""
    buckets, deferred = Buckets(), Deferred[object](_nothing)
    many_us = [1_234] * ROW_COUNT_MAX  # the most that one call gets

    calls: dict[str, Callable[[], object]] = {
        "Buckets.observe": lambda: buckets.observe(1_234),
        "Buckets.observe_all": lambda: buckets.observe_all(many_us),
        "Buckets.observe_none": lambda: buckets.observe_none(),  # noqa: PLW0108 - as it is by then
        "Deferred.put": lambda: deferred.put((1_234, 5_678)),
    }
    switch_metrics("off")
    off_us = {name: _call_us(call) for name, call in calls.items()}
    switch_metrics("on")
    found = {name: max(0.0, _call_us(call) - off_us[name]) for name, call in calls.items()}
    clock_us = max(0.0, _call_us(monotonic_ns) - _call_us(int))
    return found | dict.fromkeys(map(_called, CLOCKS), clock_us)


def _call_us(call: Callable[[], object]) -> float:
    """Return the processor time of one call, the least of several loops."""
    times_ns = []
    for _ in range(LOOP_COUNT):
        begun_ns = time.process_time_ns()
        for _ in range(CALL_COUNT):
            call()
        times_ns.append(time.process_time_ns() - begun_ns)
    return min(times_ns) / CALL_COUNT / 1_000


def _routes(_host: str) -> Sequence[BaseRoute]:
    async def switch(request: Request) -> Response:
        mode: Any = request.query_params["metrics"]
        return JSONResponse(switch_metrics(mode))

    return [Route("/switch", switch)]


@click.command()
@server_options(BookieConfig)
def run(**options: Any) -> None:  # noqa: ANN401 - fields of BookieConfig
    """Serve until SIGTERM."""
    config = start_server(BookieConfig, options).config
    sys.exit(run_bookie(config, on_ready=_nothing, more_routes=_routes))


if __name__ == "__main__":
    run()
