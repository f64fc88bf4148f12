"""What is written to a peer, and what came of it, in the columns of ``zbk bench write``.

Words: a *call* is what the application does at once: a batch (``many``) or an entry; the *window*
is how many calls, or for ``async`` batches of calls, may be unanswered. An entry is *confirmed*
when the peer has answered that as many copies have it as the run asks for.

Latency is from the call to the confirmation, queueing included, as ``zbk bench write`` has it.
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
"""Of single asynchronous entries, every so many is timed: timing each would be the load."""


class PeerFailedError(click.ClickException):
    """A peer did not do what was asked: one line, exit code 1."""


class PeerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What to write."""

    entry_size: int  # bytes of payload
    entry_count: int
    api: Api
    batch_count: int
    window: int
    ledger_count: int = 1  # streams written at once by each process
    outstanding: int = 0  # appends kept unanswered in each stream; 0: ``window`` counts
    process_count: int = 1
    seconds: float = 0.0  # how long, whatever ``entry_count`` says; 0: until all are written


class Cost(msgspec.Struct, frozen=True):
    """What a load cost. Processor time: of all servers together; memory: of the largest."""

    client_cpu_us_per_entry: float
    server_cpu_us_per_entry: float
    client_rss_size: int
    server_rss_size_max: int


class PeerRun(msgspec.Struct, frozen=True):
    """What a client measured of one run."""

    seconds: float
    latencies_s: list[float]
    cost: Cost
    entry_count: int


class Durability(msgspec.Struct, frozen=True):
    """What a confirmation means."""

    text: str
    is_fsynced: bool  # one server at least has it on stable storage


class PeerResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a load. Rates a second."""

    measured: str  # the peer's name
    version: str
    durability: str  # what a confirmation meant in this run
    is_fsynced: bool
    load: PeerLoad
    seconds: float
    entries_per_s: float
    payload_mb_per_s: float
    latency: Percentiles
    cost: Cost


class Meter:
    """Reads what this process and the servers have used since it was made."""

    def __init__(self, server_pids: Sequence[int]) -> None:
        self._pids = server_pids
        self._client = usage()
        self._servers = self._look()

    def cost(self, entry_count: int) -> Cost:
        """Return what was used, a share for each entry."""
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
    """Return a load as it is written: ``sync`` has one entry on its way and no batches."""
    if load.api == "sync":
        return msgspec.structs.replace(load, batch_count=1, window=1)
    return load


def batch_sizes(load: PeerLoad) -> list[int]:
    """Return how many entries each batch has; the last one has what is left.

    >>> batch_sizes(PeerLoad(entry_size=1, entry_count=5, api="many", batch_count=2, window=1))
    [2, 2, 1]
    """
    whole, rest = divmod(load.entry_count, load.batch_count)
    return [load.batch_count] * whole + [rest] * (rest > 0)


def check_kept(name: str, confirmed_count: int, kept_count: int) -> None:
    """Compare what was confirmed with what the server says that it has.

    Raises:
        PeerFailedError: entries are missing.
    """
    if kept_count < confirmed_count:
        raise PeerFailedError(
            f"{name} confirmed {confirmed_count} entries and has {kept_count}: "
            "the figures of this run mean nothing"
        )


def result_of(
    name: str, version: str, durability: Durability, load: PeerLoad, run: PeerRun
) -> dict[str, Any]:
    """Return the flat fields that are printed."""
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
    """Return the rounds' medians, field by field, of those that are figures.

    >>> median_of([{"a": 1.0, "b": "x"}, {"a": 5.0, "b": "x"}, {"a": 2.0, "b": "x"}])
    {'a': 2.0}
    """
    figures = [
        name
        for name, value in rounds[0].items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return {name: median(each[name] for each in rounds) for name in figures}
