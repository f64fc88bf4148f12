"""Following ledgers on real bookies: while another process writes, dies, or is taken over from."""

import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import pause
from tests.support.waiting import wait_until
from zbk.client.cluster.requests import ReplyBox
from zbk.cluster.local import LocalCluster
from zbk.protocol.entry.digest import checksum, ledger_key
from zbk.protocol.entry.entry_batch import sizes_to_wire
from zbk.system.clock import monotonic_ms
from zbk.wire.messages import Add, AddAnswer

ENTRY = b"%08d" + b"." * 40
NEXT_S = 30.0

WRITER = """
import sys, zbk
with zbk.connect(sys.argv[1], request_timeout_ms=2000) as client:
    ledger = client.create_ledger(ensemble_size=3, write_quorum_size=3, ack_quorum_size=2)
    print(ledger.ledger_id, flush=True)
    number = 0
    for line in sys.stdin:
        command, count = line.split()
        for _ in range(int(count)):
            ledger.append(b"%08d" % number + b"." * 40)
            number += 1
        if command == "close":
            ledger.close()
        print(number, flush=True)
"""


class WriterProcess:
    """Another process that appends when it is told to."""

    def __init__(self, uri: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, uri],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.ledger_id = int(self._answer())

    def tell(self, command: str, count: int = 0) -> int:
        """Make it append; return how many entries are acknowledged in all."""
        self.begin(command, count)
        return int(self._answer())

    def begin(self, command: str, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command} {count}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


class Follower:
    """Reads a tail in a thread of its own."""

    def __init__(self, tail: Iterator[zbk.Entry]) -> None:
        self._tail = tail
        self.entries: list[zbk.Entry] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for entry in self._tail:
                self.entries.append(entry)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.entries) >= count or self.error is not None, 60.0, "the tail")
        assert self.error is None

    def wait_for_end(self) -> None:
        self._thread.join(60.0)
        assert not self._thread.is_alive(), "the tail ends with the ledger"
        assert self.error is None

    def check(self, count: int) -> None:
        """Exactly ``count`` entries came, in order, each once, with their bytes."""
        assert [entry.entry_id for entry in self.entries] == list(range(count))
        assert [entry.payload for entry in self.entries] == [ENTRY % n for n in range(count)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Four bookies of this test's own: it breaks them."""
    with LocalCluster(tmp_path / "data", bookie_count=4) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri, request_timeout_ms=2_000) as connected:
        yield connected


@pytest.fixture
def writer(cluster: LocalCluster) -> Iterator[WriterProcess]:
    process = WriterProcess(cluster.metadata_uri)
    yield process
    process.kill()


def test_a_tail_sees_what_another_process_writes_and_ends_with_the_ledger(
    client: zbk.Client, writer: WriterProcess
) -> None:
    with client.open_ledger(writer.ledger_id) as reader:
        follower = Follower(reader.tail(timeout=NEXT_S))
        for count in (1, 10, 500):
            writer.tell("append", count)
        follower.wait_for(511)
        writer.tell("close")
        follower.wait_for_end()

    follower.check(511)


def test_an_entry_arrives_soon_after_it_is_confirmed(
    client: zbk.Client, writer: WriterProcess
) -> None:
    """The idle writer tells the LAC by itself; the long poll brings it."""
    writer.tell("append", 2)
    with client.open_ledger(writer.ledger_id) as reader:
        tail = reader.tail(timeout=NEXT_S)
        assert next(tail).entry_id == 0
        begin_ms = monotonic_ms()
        writer.tell("append", 20)  # twenty fsyncs, and each entry tells the LAC of the one before
        seen = [next(tail).entry_id for _ in range(20)]

    assert seen == list(range(1, 21))
    assert monotonic_ms() - begin_ms < 5_000


def test_a_tail_goes_on_over_lost_bookies_and_ensemble_changes(
    client: zbk.Client, cluster: LocalCluster, writer: WriterProcess
) -> None:
    with client.open_ledger(writer.ledger_id) as reader:
        follower = Follower(reader.tail(timeout=NEXT_S))
        writer.tell("append", 100)
        follower.wait_for(99)
        first = reader.metadata.last_fragment.bookies[0]
        cluster.kill(index_of(cluster, first))
        writer.tell("append", 100)
        follower.wait_for(199)
        total = writer.tell("close", 100)
        follower.wait_for_end()
        assert len(reader.metadata.fragments) > 1, "the ensemble was changed"

    follower.check(total)


def test_a_tail_goes_on_over_a_recovery_to_its_end(
    client: zbk.Client, cluster: LocalCluster, writer: WriterProcess
) -> None:
    with client.open_ledger(writer.ledger_id) as reader:
        follower = Follower(reader.tail(timeout=NEXT_S))
        acked_count = writer.tell("append", 200)
        writer.begin("append", 100_000)
        follower.wait_for(acked_count)
        writer.kill()
        with zbk.connect(cluster.metadata_uri) as other:
            recovered = other.recover_ledger(writer.ledger_id)
        follower.wait_for_end()

    assert recovered.last_add_confirmed + 1 >= acked_count
    follower.check(recovered.last_add_confirmed + 1)


def test_a_tail_without_news_says_so_and_can_be_asked_again(client: zbk.Client) -> None:
    with client.create_ledger() as ledger, client.open_ledger(ledger.ledger_id) as reader:
        tail = reader.tail(timeout=0.2)
        with pytest.raises(zbk.RequestTimeoutError):
            next(tail)
        ledger.append_many([b"a", b"b"]).result(10)
        came: list[bytes] = []
        while len(came) < 2:  # the replicas of the two need not answer together
            batch = tail.next_batch(timeout=NEXT_S)
            assert batch is not None
            came += batch
        assert came == [b"a", b"b"]


def test_a_tail_of_a_deleted_ledger_fails(client: zbk.Client) -> None:
    ledger = client.create_ledger()
    ledger.append(b"x")
    with client.open_ledger(ledger.ledger_id) as reader:
        tail = reader.tail(first=1, timeout=NEXT_S)
        client.delete_ledger(ledger.ledger_id)

        with pytest.raises(zbk.NoSuchLedgerError):
            next(tail)


def test_a_tail_ends_when_its_reader_is_closed(client: zbk.Client) -> None:
    ledger = client.create_ledger()
    reader = client.open_ledger(ledger.ledger_id)
    follower = Follower(reader.tail())

    reader.close()

    follower.wait_for_end()
    assert follower.entries == []


def test_a_bookie_that_hangs_is_not_waited_for(cluster: LocalCluster, client: zbk.Client) -> None:
    """A SIGSTOPped bookie answers nothing; after ``speculative_read_ms`` another one is asked."""
    with client.create_ledger() as ledger:
        ledger.append_many([ENTRY % n for n in range(2_000)]).result(30)
    with zbk.connect(
        cluster.metadata_uri, request_timeout_ms=20_000, speculative_read_ms=50
    ) as own:
        reader = own.open_ledger(ledger.ledger_id)
        assert len(list(reader.read(0, 1_999))) == 2_000, "it is connected to all of them"
        stopped = index_of(cluster, reader.metadata.last_fragment.bookies[0])
        pause(cluster, stopped)
        begin_ms = monotonic_ms()
        found = [entry.payload for entry in reader.read(0, 1_999)]
        elapsed_ms = monotonic_ms() - begin_ms
        cluster.resume(stopped)

    assert found == [ENTRY % n for n in range(2_000)]
    assert elapsed_ms < 10_000, "nobody waited for the time-out"


def test_b25_a_reader_opened_long_ago_reads_after_all_its_bookies_were_replaced(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    """B25: the copies move bookie by bookie; the old handle looks at the metadata and follows."""
    with client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1) as ledger:
        expected = [ENTRY % n for n in range(50)]
        ledger.append_many(expected).result(10)
    reader = client.open_ledger(ledger.ledger_id)
    (old,) = reader.metadata.last_fragment.bookies
    new = next(bookie.bookie_id for bookie in cluster.bookies if bookie.bookie_id != old)
    copy_entries(client, reader, new)
    client._ledgers.update(
        ledger.ledger_id, lambda current: current.with_replaced_bookie(0, old, new)
    )
    cluster.kill(index_of(cluster, old))

    assert [entry.payload for entry in reader.read(0, 49)] == expected
    assert reader.metadata.last_fragment.bookies == (new,)


def index_of(cluster: LocalCluster, bookie_id: str) -> int:
    return [bookie.bookie_id for bookie in cluster.bookies].index(bookie_id)


def copy_entries(client: zbk.Client, reader: zbk.LedgerReader, bookie_id: str) -> None:
    """Put a ledger's entries on another bookie, as re-replication does."""
    for batch in list(reader.read_batches(0, reader.last_add_confirmed)):
        sizes = sizes_to_wire(array("I", batch.sizes))
        body = batch.encoded
        request = Add(
            request_id=0,
            ledger_id=reader.ledger_id,
            ledger_key=ledger_key(b"", reader.ledger_id),
            ledger_type=reader.metadata.ledger_type,
            first_entry_id=batch.first_entry_id,
            count=len(batch),
            lac=-1,
            checksum=checksum(body),
            is_recovery=True,
        )
        box = ReplyBox()
        client._requests.send(bookie_id, request, (sizes, body), box, None)
        reply = box.next(10)
        assert reply is not None
        assert isinstance(reply.outcome, AddAnswer), reply.outcome
