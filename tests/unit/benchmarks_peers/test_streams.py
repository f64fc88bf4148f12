"""Many streams at once: what each client process gets, and what comes of all of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from benchmarks.peers import streams
from benchmarks.peers.load import PeerFailedError, PeerLoad
from benchmarks.peers.servers import Servers
from benchmarks.peers.streams import (
    StreamJob,
    StreamsWritten,
    Timed,
    measure,
    shares,
    stream_names,
)


def a_job(ledger_count: int, process_count: int = 1) -> StreamJob:
    load = PeerLoad(
        entry_size=100,
        entry_count=1,
        api="sync",
        batch_count=1,
        window=1,
        ledger_count=ledger_count,
        process_count=process_count,
        seconds=1.0,
    )
    names = stream_names(load)
    leaders = [number % 3 for number in range(len(names))]
    return StreamJob(
        peer="nats", ports=[1, 2, 3], version=(2, 9, 10), load=load, streams=names, leaders=leaders
    )


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Servers("test") as started:
        started.start("sleeper", ["/bin/sleep", "600"])
        yield started


def test_each_process_has_its_own_streams_with_their_leaders() -> None:
    job = a_job(ledger_count=2, process_count=3)

    its = shares(job)

    assert [share.streams for share in its] == [
        ["zbk-peers-0", "zbk-peers-1"],
        ["zbk-peers-2", "zbk-peers-3"],
        ["zbk-peers-4", "zbk-peers-5"],
    ]
    assert [share.leaders for share in its] == [[0, 1], [2, 0], [1, 2]]


def test_a_job_without_leaders_has_shares_without_leaders() -> None:
    job = msgspec.structs.replace(a_job(ledger_count=1, process_count=2), leaders=[])

    assert [share.leaders for share in shares(job)] == [[], []]


def test_a_job_is_the_same_after_it_was_sent_to_a_process() -> None:
    job = a_job(ledger_count=2)

    assert msgspec.json.decode(msgspec.json.encode(job), type=StreamJob) == job


def test_every_confirmation_counts_as_an_entry(servers: Servers) -> None:
    begun = []

    def write(job: StreamJob, before_start: Callable[[], None]) -> Timed:
        before_start()
        begun.append(len(job.streams))
        return 5.0, 7.0, [0.1, 0.2, 0.3]

    run = measure(servers, a_job(ledger_count=4), write)

    assert begun == [4]
    assert (run.entry_count, run.seconds, run.latencies_s) == (3, 2.0, [0.1, 0.2, 0.3])


def test_nothing_confirmed_is_an_error(servers: Servers) -> None:
    def write(_job: StreamJob, before_start: Callable[[], None]) -> Timed:
        before_start()
        return 5.0, 7.0, []

    with pytest.raises(PeerFailedError, match="nothing was confirmed"):
        measure(servers, a_job(ledger_count=1), write)


def written_by_processes(
    monkeypatch: pytest.MonkeyPatch, written: list[StreamsWritten]
) -> Callable[[StreamJob, Callable[[], None]], Timed]:
    def run(_job: StreamJob, begin: Callable[[], None]) -> list[StreamsWritten]:
        begin()
        return written

    def never(_job: StreamJob, _before_start: Callable[[], None]) -> Timed:
        raise AssertionError("only the processes write")

    monkeypatch.setattr(streams, "_written_by_processes", run)
    return never


def test_processes_are_added_up_from_the_first_start_to_the_last_end(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = written_by_processes(
        monkeypatch,
        [
            StreamsWritten(10.0, 14.0, [0.1, 0.2], cpu_ms=30, rss_size=7),
            StreamsWritten(10.5, 14.5, [0.3], cpu_ms=60, rss_size=5),
        ],
    )

    run = measure(servers, a_job(ledger_count=1, process_count=2), never)

    assert (run.seconds, run.entry_count) == (4.5, 3)
    assert run.latencies_s == [0.1, 0.2, 0.3]
    assert run.cost.client_cpu_us_per_entry == 30_000
    assert run.cost.client_rss_size == 7


def test_a_process_that_failed_fails_the_run(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = written_by_processes(
        monkeypatch, [StreamsWritten(10.0, 14.0, [0.1]), StreamsWritten(error="no answer")]
    )

    with pytest.raises(PeerFailedError, match="no answer"):
        measure(servers, a_job(ledger_count=1, process_count=2), never)
