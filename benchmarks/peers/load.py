"""The load on a peer, and its result in the columns of ``zbk bench write``.

Words: a *call* of the application writes a batch (``many``) or an entry; the *window* is the number
of calls, or for ``async`` of batches of calls, that may be unanswered. An entry is *confirmed* when
the peer has answered that enough copies have it.

Latency runs from the call to the confirmation, with queueing, as in ``zbk bench write``.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final, Literal

import click
import msgspec

from zbk.bench.percentiles import Percentiles, percentiles
from zbk.cli.bench.output import fields_of
from zbk.system.process import ProcessUsage, usage

Api = Literal["many", "async", "sync"]

SAMPLE_EVERY: Final = 64
"""One in so many asynchronous entries is timed: timing each would be the load."""


class PeerFailedError(click.ClickException):
    """A peer failed: one line, exit code 1."""


class PeerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The entries to write."""

    entry_size: int  # bytes of payload
    entry_count: int
    api: Api
    batch_count: int
    window: int
    ledger_count: int = 1  # streams written at once by each process
    outstanding: int = 0  # appends kept unanswered in each stream; 0: ``window`` counts
    process_count: int = 1
    seconds: float = 0.0  # time to write, instead of ``entry_count``; 0: until all are written


class Cost(msgspec.Struct, frozen=True):
    """The cost of a load. Processor time: all servers together; memory: the largest one."""

    client_cpu_us_per_entry: float
    server_cpu_us_per_entry: float
    client_rss_size: int
    server_rss_size_max: int


class PeerRun(msgspec.Struct, frozen=True):
    """The measurements of a client in one run."""

    seconds: float
    latencies_s: list[float]
    cost: Cost
    entry_count: int


class Durability(msgspec.Struct, frozen=True):
    """The meaning of a confirmation."""

    text: str
    is_fsynced: bool  # at least one server has the entry on stable storage


class PeerResult(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a load. Rates are per second."""

    measured: str  # the peer's name
    version: str
    durability: str  # the meaning of a confirmation in this run
    is_fsynced: bool
    load: PeerLoad
    seconds: float
    entries_per_s: float
    payload_mb_per_s: float
    latency: Percentiles
    cost: Cost


class Meter:
    """Reads the resources that this process and the servers have used since its creation."""

    def __init__(self, server_pids: Sequence[int]) -> None:
        self._pids = server_pids
        self._client = usage()
        self._servers = self._look()

    def cost(self, entry_count: int) -> Cost:
        """Return the resources used, per entry."""
        mine = usage().since(self._client)
        theirs = [now.since(then) for now, then in zip(self._look(), self._servers, strict=True)]
        return Cost(
            client_cpu_us_per_entry=mine.cpu_ms * 1000 / entry_count,
            server_cpu_us_per_entry=sum(used.cpu_ms for used in theirs) * 1000 / entry_count,
            client_rss_size=mine.rss_size,
            server_rss_size_max=max(used.rss_size for used in theirs),
        )

    def _look(self) -> list[ProcessUsage]:
        return [usage(pid) for pid in self._pids]


def shaped(load: PeerLoad) -> PeerLoad:
    """Return a load in its written shape: ``sync`` has one entry in flight and no batches."""
    if load.api == "sync":
        return msgspec.structs.replace(load, batch_count=1, window=1)
    return load


def batch_sizes(load: PeerLoad) -> list[int]:
    """Return the number of entries of each batch; the last one has the rest.

    >>> batch_sizes(PeerLoad(entry_size=1, entry_count=5, api="many", batch_count=2, window=1))
    [2, 2, 1]
    """
    whole, rest = divmod(load.entry_count, load.batch_count)
    return [load.batch_count] * whole + [rest] * (rest > 0)


def check_kept(name: str, confirmed_count: int, kept_count: int) -> None:
    """Compare the number of confirmed entries with the number that the server has.

    Raises:
        PeerFailedError: entries are missing.
    """
    if kept_count < confirmed_count:
        raise PeerFailedError(
            f"{name} confirmed {confirmed_count} entries and has {kept_count}: "
            "the figures of this run are not valid"
        )


def result_of(
    name: str, version: str, durability: Durability, load: PeerLoad, run: PeerRun
) -> dict[str, Any]:
    """Return the flat fields of a result."""
    result = PeerResult(
        measured=name,
        version=version,
        durability=durability.text,
        is_fsynced=durability.is_fsynced,
        load=msgspec.structs.replace(load, entry_count=run.entry_count),
        seconds=run.seconds,
        entries_per_s=run.entry_count / run.seconds,
        payload_mb_per_s=run.entry_count * load.entry_size / run.seconds / 1e6,
        latency=percentiles(run.latencies_s),
        cost=run.cost,
    )
    return fields_of(result)


def median_of(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the medians of the rounds for each numeric field.

    >>> median_of([{"a": 1.0, "b": "x"}, {"a": 5.0, "b": "x"}, {"a": 2.0, "b": "x"}])
    {'a': 2.0}
    """
    figures = [
        name
        for name, value in rounds[0].items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return {name: median(each[name] for each in rounds) for name in figures}
