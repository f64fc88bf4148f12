"""Many streams at once, each with one append unanswered: in one client process, or in several.

A stream corresponds to a ledger of zbk. The load ends at a time, not after a count: each answer, or
each thread, sends the next append of its stream until then, and the load waits for the last ones.

``python -m benchmarks.peers.streams`` is one of several client processes: it reads a ``StreamJob``,
opens its streams and prints ``StreamsOpen``. After the next line it writes, and prints
``StreamsWritten``.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import msgspec

from benchmarks.peers.load import Meter, PeerFailedError, PeerLoad, PeerRun
from benchmarks.peers.servers import Servers, Version
from zbk.bench.program import Program, report
from zbk.conversion import decode_json
from zbk.errors import ZbkError
from zbk.system.process import usage

OPEN_TIMEOUT_S: Final = 60.0
ANSWER_TIMEOUT_S: Final = 60.0


class StreamJob(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one client process."""

    peer: str
    ports: list[int]  # of the servers
    version: Version
    load: PeerLoad
    streams: list[str]  # the names of its streams
    leaders: list[int] = []  # for each stream, the place in ``ports`` of the server that leads it


class StreamsOpen(msgspec.Struct, frozen=True):
    """The process is connected, has an entry in each of its streams, and waits for the others."""


class StreamsWritten(msgspec.Struct, frozen=True):
    """The measurements of one client process; ``error`` says why there are none."""

    started_s: float = 0.0  # of the clock that all processes share
    ended_s: float = 0.0
    latencies_s: list[float] = []
    cpu_ms: int = 0
    rss_size: int = 0
    error: str = ""


Timed = tuple[float, float, list[float]]
"""The times of the first append and of the last confirmation, and all latencies."""

WriteStreams = Callable[[StreamJob, Callable[[], None]], Timed]
"""Open the streams of a job, call the function, write until the time is over."""


def stream_names(load: PeerLoad) -> list[str]:
    """Return the names of all streams of a load, grouped by process.

    >>> load = PeerLoad(entry_size=1, entry_count=1, api="sync", batch_count=1, window=1)
    >>> stream_names(msgspec.structs.replace(load, process_count=2, ledger_count=1))
    ['zbk-peers-0', 'zbk-peers-1']
    """
    return [f"zbk-peers-{number}" for number in range(load.process_count * load.ledger_count)]


def measure(servers: Servers, job: StreamJob, write: WriteStreams) -> PeerRun:
    """Write the load of a job, whose streams are those of all processes.

    Raises:
        PeerFailedError: a client process failed, or confirmed nothing.
    """
    meters: list[Meter] = []

    def begin() -> None:
        meters.append(Meter(servers.pids))

    if job.load.process_count == 1:
        written = [_written(job, write, begin)]
    else:
        written = _written_by_processes(job, begin)
    errors = [one.error for one in written if one.error]
    if errors:
        servers.check_running()
        raise PeerFailedError(f"a client process failed: {errors[0]}")
    entry_count = sum(len(one.latencies_s) for one in written)
    if not entry_count:
        raise PeerFailedError("nothing was confirmed")
    cost = msgspec.structs.replace(
        meters[0].cost(entry_count),
        client_cpu_us_per_entry=sum(one.cpu_ms for one in written) * 1000 / entry_count,
        client_rss_size=max(one.rss_size for one in written),
    )
    return PeerRun(
        seconds=max(one.ended_s for one in written) - min(one.started_s for one in written),
        latencies_s=[latency_s for one in written for latency_s in one.latencies_s],
        cost=cost,
        entry_count=entry_count,
    )


def shares(job: StreamJob) -> list[StreamJob]:
    """Return the job of each client process."""
    count = job.load.ledger_count
    return [
        msgspec.structs.replace(
            job,
            streams=job.streams[start : start + count],
            leaders=job.leaders[start : start + count],
        )
        for start in range(0, job.load.process_count * count, count)
    ]


def _written_by_processes(job: StreamJob, begin: Callable[[], None]) -> list[StreamsWritten]:
    try:
        with ExitStack() as exits:
            programs = [
                exits.enter_context(Program("benchmarks.peers.streams", []))
                for _ in range(job.load.process_count)
            ]
            for program, share in zip(programs, shares(job), strict=True):
                program.send(msgspec.json.encode(share).decode())
            for program in programs:
                program.receive(StreamsOpen, OPEN_TIMEOUT_S)
            begin()
            for program in programs:
                program.send("go")
            timeout_s = job.load.seconds + 2 * ANSWER_TIMEOUT_S
            return [program.receive(StreamsWritten, timeout_s) for program in programs]
    except ZbkError as error:
        raise PeerFailedError(str(error)) from error


def _written(job: StreamJob, write: WriteStreams, begin: Callable[[], None]) -> StreamsWritten:
    before = usage()

    def begin_too() -> None:
        nonlocal before
        begin()
        before = usage()

    started_s, ended_s, latencies_s = write(job, begin_too)
    used = usage().since(before)
    return StreamsWritten(started_s, ended_s, latencies_s, used.cpu_ms, used.rss_size)


def _write_of(peer: str) -> WriteStreams:
    if peer == "redis":
        from benchmarks.peers import redis_streams  # noqa: PLC0415 - one client may be missing

        return redis_streams.write_streams
    from benchmarks.peers import nats_streams  # noqa: PLC0415 - one client may be missing

    return nats_streams.write_streams


def _wait_for_others() -> None:
    report(StreamsOpen())
    sys.stdin.buffer.readline()


def main() -> None:
    """Run as one of several client processes."""
    job = decode_json(sys.stdin.buffer.readline(), StreamJob)
    try:
        report(_written(job, _write_of(job.peer), _wait_for_others))
    except PeerFailedError as error:
        report(StreamsWritten(error=error.message))


if __name__ == "__main__":
    main()
