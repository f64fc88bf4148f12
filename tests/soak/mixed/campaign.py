"""A whole run: a cluster, the threads of its client, samples, the end, and the measuring of it."""

import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

import zbk
from tests.soak.mixed.disk import disk_use, kept
from tests.soak.mixed.killer import Killer
from tests.soak.mixed.payloads import MIB
from tests.soak.mixed.report import Report, failures_of
from tests.soak.mixed.samples import Sample, take_sample, trend
from tests.soak.mixed.shelf import Shelf
from tests.soak.mixed.workers import DeleterWorker, ReaderWorker, Worker, WriterWorker
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s

WRITER_COUNT: Final = 3
READER_COUNT: Final = 2
GC_TIMEOUT_S: Final = 300.0
SCRUB_TIMEOUT_S: Final = 300.0
JOIN_TIMEOUT_S: Final = 200.0
LAST_ROUND_COUNT: Final = 2  # of garbage collection, at the end
SPARED_FROM_SHARE: Final = 0.25  # of the run; one bookie is killed no more

OPTIONS: Final[Mapping[str, int | str]] = {
    "session_timeout_ms": 2_000,
    "entry_log_size_max": 16 * MIB,
    "journal_segment_size": 16 * MIB,
    "checkpoint_interval_ms": 1_000,
    "gc_interval_ms": 5_000,
    "gc_confirm_delay_ms": 500,
    "compaction_minor_interval_ms": 15_000,
    "compaction_major_interval_ms": 60_000,
    "open_files_max": 64,  # the cache of open files is full early,
    "ledger_cache_size": MIB,  # and that of index pages: by default it fills for hours
    "scrub_interval_ms": 30_000,
    "disk_warn_free": 0,
    "disk_readonly_free": 0,
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    seed: int
    seconds: float
    is_sqlite: bool = False
    rate_size: int = 3 * MIB  # bytes of payload a second, all writers together
    live_size_max: int = 256 * MIB  # bytes of entries, all copies, that are not deleted
    kill_interval_s: float = 30.0
    sample_interval_s: float = 10.0


Say = Callable[[str], None]


def run(settings: Settings, folder: Path, say: Say) -> Report:
    """Run from an empty folder to the report."""
    shelf = Shelf()
    samples: list[Sample] = []
    with LocalCluster(
        folder, use_zookeeper=not settings.is_sqlite, bookie_options=OPTIONS
    ) as cluster:
        with zbk.connect(cluster.metadata_uri) as client:
            _Live(settings, cluster, client, shelf, samples, say).run()
            _compare_all(client, shelf)
            _collect(cluster, client, shelf, say)
            _scrub(cluster, client)
            samples.append(take_sample(settings.seconds, cluster, shelf))
        shelf.violations += [f"bookie {n} ended: {error}" for n, error in cluster.deaths().items()]
        _count_scrubs(cluster, shelf)
        metadata, bookies = cluster.metadata_kind, cluster.bookies
        for bookie in bookies:
            cluster.terminate(bookie.index)
        use, found = disk_use(cluster.folder), kept(bookies, shelf.all())
    names = sorted({name for sample in samples for name in sample.processes})
    trends = {name: trend(samples[:-1], name) for name in names}
    command = f"python -m tests.soak.mixed --minutes {settings.seconds / 60:g}"
    report = Report(
        seed=settings.seed,
        minutes=round(settings.seconds / 60, 2),
        metadata=metadata,
        command=f"{command} --seed {settings.seed}{' --sqlite' if settings.is_sqlite else ''}",
        counts=shelf.counts,
        disk=use,
        kept=found,
        trends={name: one for name, one in trends.items() if one is not None},
        failures=[],
        violations=shelf.violations,
        samples=samples,
    )
    return msgspec.structs.replace(report, failures=failures_of(report))


class _Live:
    """The time in which everything happens at once."""

    def __init__(
        self,
        settings: Settings,
        cluster: LocalCluster,
        client: "zbk.Client",
        shelf: Shelf,
        samples: list[Sample],
        say: Say,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._client = client
        self._shelf = shelf
        self._samples = samples
        self._say = say
        self._stop = threading.Event()
        dice = random.Random(settings.seed)
        self._killer = Killer(
            cluster, shelf, self._stop, self._dice(dice), interval_s=settings.kill_interval_s
        )
        common = (client, shelf, self._stop)
        rate_size = settings.rate_size / WRITER_COUNT
        writers = [
            WriterWorker(*common, self._dice(dice), rate_size=rate_size)
            for _ in range(WRITER_COUNT)
        ]
        readers = [ReaderWorker(*common, self._dice(dice)) for _ in range(READER_COUNT)]
        deleter = DeleterWorker(*common, self._dice(dice), live_size_max=settings.live_size_max)
        work: list[tuple[Worker, Callable[[], None]]] = [(one, one.write) for one in writers]
        work += [(one, one.read) for one in readers]
        work.append((deleter, deleter.delete))
        self._threads = [
            threading.Thread(target=one.run, args=(what,), daemon=True) for one, what in work
        ]
        self._threads.append(threading.Thread(target=self._killer.run, daemon=True))

    def run(self) -> None:
        """Run all threads until the time is over, and look at them meanwhile."""
        start_s = monotonic_s()
        for thread in self._threads:
            thread.start()
        pause = threading.Event()
        while (elapsed_s := monotonic_s() - start_s) < self._settings.seconds:
            self._take_sample(elapsed_s)
            if elapsed_s > SPARED_FROM_SHARE * self._settings.seconds:
                self._killer.spared = frozenset({0})
            left_s = self._settings.seconds - elapsed_s
            pause.wait(min(self._settings.sample_interval_s, left_s))
        self._stop.set()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)
            if thread.is_alive():
                self._shelf.violated(f"{thread.name} does not end")

    def _take_sample(self, at_s: float) -> None:
        sample = take_sample(at_s, self._cluster, self._shelf)
        self._samples.append(sample)
        rss = ", ".join(
            f"{name} {one.rss_size // MIB}/{one.fd_count}"
            for name, one in sorted(sample.processes.items())
        )
        self._say(
            f"{at_s:6.0f} s  {sample.counts.entry_count:,} written, "
            f"{sample.counts.read_count:,} read, {sample.counts.deleted_count} deleted, "
            f"{sample.counts.kill_count} kills; disk {sample.disk.stored_size // MIB} MiB, live "
            f"{sample.live_size // MIB} MiB; MiB/descriptors: {rss}; "
            f"{sample.violation_count} violations"
        )

    @staticmethod
    def _dice(dice: random.Random) -> random.Random:
        return random.Random(dice.randrange(2**63))


def _compare_all(client: "zbk.Client", shelf: Shelf) -> None:
    """Read everything once more, with nothing else going on."""
    reader = ReaderWorker(client, shelf, threading.Event(), random.Random(0))
    for written in shelf.all():
        try:
            reader.insist(
                lambda written=written: reader.compare(written),  # type: ignore[misc]
                f"the last reading of ledger {written.ledger_id}",
            )
        except zbk.ZbkError:
            continue  # it is noted
        shelf.was_read(written)


def _collect(cluster: LocalCluster, client: "zbk.Client", shelf: Shelf, say: Say) -> None:
    """Drop what was deleted at every bookie, and compact as far as it goes.

    Each one starts again first, with a new entry log: an open one cannot be compacted, and is a
    large part of what a short run writes.
    """
    for bookie in list(cluster.bookies):
        cluster.kill(bookie.index)
        cluster.restart(bookie.index)
    for _ in range(LAST_ROUND_COUNT):
        _pass_marks(cluster, client)
        for bookie in cluster.bookies:
            status = client.collect_garbage(
                bookie.bookie_id, compaction="major", timeout=GC_TIMEOUT_S
            )
            reason = status.gave_up or status.compaction_gave_up
            if reason:
                shelf.violated(f"bookie {bookie.index} does not collect: {reason}")
    say("the last garbage was collected, the last logs compacted")


def _scrub(cluster: LocalCluster, client: "zbk.Client") -> None:
    """Start a scrub of all files at every bookie."""
    begun = {one.bookie_id: client.scrub(one.bookie_id) for one in cluster.bookies}
    for bookie_id, status in begun.items():
        client.follow_scrub(bookie_id, status, timeout=SCRUB_TIMEOUT_S)


def _count_scrubs(cluster: LocalCluster, shelf: Shelf) -> None:
    """Count the passes in the logs of all lives of all bookies: damage that is told is a violation.

    Nothing damages files here: a kill leaves what was written.
    """
    for bookie in cluster.bookies:
        lines = (cluster.folder / f"bookie{bookie.index}.log").read_text().splitlines()
        shelf.counts.scrub_count += sum("scrub pass" in line for line in lines)
        shelf.violations += [line for line in lines if " is damaged at byte " in line]


def _pass_marks(cluster: LocalCluster, client: "zbk.Client") -> None:
    """Wait for a checkpoint of every bookie: only what lies before it can be collected."""
    before = [_checkpoint_count(client, one.bookie_id) for one in cluster.bookies]
    deadline_s = monotonic_s() + GC_TIMEOUT_S
    pause = threading.Event()
    with client.create_ledger() as ledger:
        while monotonic_s() < deadline_s:
            ledger.append(b"so that there is a reason for one")
            now = [_checkpoint_count(client, one.bookie_id) for one in cluster.bookies]
            if all(count > then + 1 for count, then in zip(now, before, strict=True)):
                break
            pause.wait(0.2)
    client.delete_ledger(ledger.ledger_id)


def _checkpoint_count(client: "zbk.Client", bookie_id: str) -> int:
    return client.bookie_info(bookie_id).checkpoint_count
