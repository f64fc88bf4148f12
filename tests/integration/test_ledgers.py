"""Ledgers end to end: a client, three bookie processes, real metadata, real files."""

import os
import subprocess
import sys

import msgspec
import pytest

import zbk
from tests.support.cluster import client, cluster, payloads_of
from tests.support.unclosed_client import AT_EXIT
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

__all__ = ["client", "cluster"]

TYPES = list(zbk.LedgerType)
DIGESTS = list(zbk.DigestType)
PASSWORD = b"secret"


@pytest.mark.parametrize("ledger_type", TYPES)
@pytest.mark.parametrize("digest_type", DIGESTS)
def test_what_is_appended_is_read(
    client: zbk.Client, ledger_type: zbk.LedgerType, digest_type: zbk.DigestType
) -> None:
    with client.create_ledger(
        ledger_type=ledger_type, digest_type=digest_type, password=PASSWORD
    ) as ledger:
        assert ledger.append(b"first") == 0
        assert ledger.append_many([b"a" * n for n in range(500)]).result(10) == range(1, 501)
        futures = [ledger.append_async(str(n).encode()) for n in range(100)]
        assert [future.result(10) for future in futures] == list(range(501, 601))

    with client.open_ledger(ledger.ledger_id, PASSWORD) as reader:
        assert reader.last_add_confirmed == 600
        expected = [b"first", *(b"a" * n for n in range(500)), *(b"%d" % n for n in range(100))]
        assert payloads_of(reader) == expected


@pytest.mark.parametrize(("ensemble", "write", "ack"), [(3, 2, 2), (3, 2, 1), (3, 1, 1), (1, 1, 1)])
def test_striped_ledgers_are_read_in_order(
    client: zbk.Client, ensemble: int, write: int, ack: int
) -> None:
    expected = [os.urandom(n % 50) for n in range(1_000)]
    with client.create_ledger(
        ensemble_size=ensemble, write_quorum_size=write, ack_quorum_size=ack
    ) as ledger:
        ledger.append(expected[0])
        ledger.append_many(expected[1:]).result(10)

    with client.open_ledger(ledger.ledger_id) as reader:
        assert payloads_of(reader) == expected
        assert [bytes(e.payload) for e in reader.read(313, 317)] == expected[313:318]


@pytest.mark.parametrize(
    "payload",
    [b"", b"x", bytearray(b"abc"), memoryview(b"defg")[1:], memoryview(b"abcdef")[::2],
     b"y" * (1 << 20)],
    ids=["empty", "one byte", "bytearray", "memoryview", "strided memoryview", "the limit"],
)  # fmt: skip
def test_anything_with_a_buffer_is_an_entry(
    client: zbk.Client, payload: bytes | bytearray | memoryview
) -> None:
    with client.create_ledger() as ledger:
        ledger.append(payload)
        ledger.append_many([payload, payload]).result(10)

    with client.open_ledger(ledger.ledger_id) as reader:
        assert payloads_of(reader) == [bytes(payload)] * 3


def test_an_entry_over_the_limit_is_refused_and_hurts_nothing(client: zbk.Client) -> None:
    with client.create_ledger() as ledger:
        with pytest.raises(zbk.EntryTooLargeError):
            ledger.append(b"x" * ((1 << 20) + 1))
        with pytest.raises(zbk.EntryTooLargeError):
            ledger.append_many([b"ok", b"x" * ((1 << 20) + 1)])
        assert ledger.append(b"next") == 0


def test_what_is_no_buffer_is_refused(client: zbk.Client) -> None:
    with client.create_ledger() as ledger, pytest.raises(zbk.InvalidOptionError):
        ledger.append("text")  # type: ignore[arg-type]  # on purpose


def test_an_empty_ledger_closes_and_reads_as_empty(client: zbk.Client) -> None:
    with client.create_ledger() as ledger:
        assert ledger.append_many([]).result(10) == range(0)

    with client.open_ledger(ledger.ledger_id) as reader:
        assert reader.last_add_confirmed == -1
        assert list(reader.read(0, -1)) == []
        with pytest.raises(zbk.ReadBeyondLacError):
            reader.read_batches(0, 0)


def test_batches_hold_what_single_entries_hold(client: zbk.Client) -> None:
    with client.create_ledger() as ledger:
        ledger.append_many([b"%d" % n for n in range(5_000)]).result(10)

    with client.open_ledger(ledger.ledger_id) as reader:
        batches = list(reader.read_batches(100, 4_899))
    assert batches[0].first_entry_id == 100
    assert sum(map(len, batches)) == 4_800
    assert [p for batch in batches for p in batch] == [b"%d" % n for n in range(100, 4_900)]


def test_a_volatile_ledger_is_confirmed_by_sync(client: zbk.Client) -> None:
    with client.create_ledger(ledger_type="VD_JOURNAL") as ledger:
        ledger.append_many([b"x"] * 1_000).result(10)

        assert ledger.last_add_acknowledged == 999
        assert ledger.sync() == 999
        assert ledger.last_add_confirmed == 999


def test_a_volatile_ledger_is_synced_from_outside_and_readers_see_it(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    with zbk.connect(cluster.metadata_uri) as other:
        ledger = other.create_ledger(ledger_type="VD_JOURNAL", password=b"p")
        ledger.append_many([b"x"] * 50).result(10)

    assert client.sync_ledger(ledger.ledger_id, b"p") == 49
    with client.open_ledger(ledger.ledger_id, b"p") as reader:
        assert reader.last_add_confirmed == 49
        assert len(payloads_of(reader)) == 50
    with pytest.raises(zbk.UnauthorizedError):
        client.sync_ledger(ledger.ledger_id, b"q")


def test_sync_of_a_persistent_ledger_waits_for_what_is_in_flight(client: zbk.Client) -> None:
    with client.create_ledger() as ledger:
        future = ledger.append_many([b"x"] * 100)

        assert ledger.sync() == 99
        assert future.done()


def test_a_reader_of_an_open_ledger_sees_what_is_confirmed(client: zbk.Client) -> None:
    with client.create_ledger() as ledger:
        ledger.append_many([b"x"] * 10).result(10)
        ledger.append(b"carries the LAC")
        reader = client.open_ledger(ledger.ledger_id)
        seen = reader.last_add_confirmed
        assert 9 <= seen <= 10
        assert len(list(reader.read(0, seen))) == seen + 1
        assert [e.entry_id for e in reader.read_unconfirmed(9, 10)] == [9, 10]
        with pytest.raises(zbk.NoSuchEntryError):
            list(reader.read_unconfirmed(11, 11))

    assert reader.read_last_add_confirmed() == 10
    assert reader.metadata.state is zbk.LedgerState.CLOSED


def test_every_bookie_of_the_ensemble_holds_every_entry(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    with client.create_ledger() as ledger:
        ledger.append_many([b"%d" % n for n in range(2_000)]).result(10)

    with client.open_ledger(ledger.ledger_id) as reader:
        for bookie in cluster.bookies:
            found = [bytes(e.payload) for e in reader.read(0, 1_999, bookie_id=bookie.bookie_id)]
            assert found == [b"%d" % n for n in range(2_000)]


def test_of_a_striped_ledger_each_bookie_is_asked_for_its_own_entries(client: zbk.Client) -> None:
    with client.create_ledger(ensemble_size=3, write_quorum_size=2, ack_quorum_size=2) as ledger:
        ledger.append_many([b"%d" % n for n in range(90)]).result(10)

    with client.open_ledger(ledger.ledger_id) as reader:
        quorum, (fragment,) = reader.metadata.quorum, reader.metadata.fragments
        for slot, bookie_id in enumerate(fragment.bookies):
            found = [entry.entry_id for entry in reader.read(0, 89, bookie_id=bookie_id)]
            assert found == [one for one in range(90) if quorum.holds(slot, one)]


def test_a_wrong_password_is_refused_by_the_client(client: zbk.Client) -> None:
    with client.create_ledger(password=b"right") as ledger:
        ledger.append(b"secret")

    with pytest.raises(zbk.UnauthorizedError):
        client.open_ledger(ledger.ledger_id, password=b"wrong")
    assert payloads_of(client.open_ledger(ledger.ledger_id, password=b"right")) == [b"secret"]


def test_a_wrong_password_is_refused_by_the_bookies(client: zbk.Client) -> None:
    with client.create_ledger(password=b"right") as ledger:
        ledger.append(b"secret")
    reader = client.open_ledger(ledger.ledger_id, password=b"right")
    context = reader._setup.context
    requests = msgspec.structs.replace(context.requests, ledger_key=bytes(16))
    context = msgspec.structs.replace(context, requests=requests)
    reader._setup = msgspec.structs.replace(reader._setup, context=context)

    with pytest.raises(zbk.UnauthorizedError):
        list(reader.read(0, 0))


def test_a_reserved_ledger_gets_exactly_one_writer(client: zbk.Client) -> None:
    ledger_id = client.reserve_ledger(custom_metadata={"job": b"nightly"})
    with client.open_for_append(ledger_id) as ledger:
        ledger.append(b"mine")
        with pytest.raises(zbk.IllegalTransitionError):
            client.open_for_append(ledger_id)

    metadata = client.get_ledger_metadata(ledger_id)
    assert metadata.custom_metadata == {"job": b"nightly"}
    assert metadata.last_entry_id == 0
    with pytest.raises(zbk.LedgerClosedError):
        client.open_for_append(ledger_id)


def test_after_close_nothing_is_appended_and_closing_again_is_fine(client: zbk.Client) -> None:
    ledger = client.create_ledger()
    ledger.append(b"last")
    assert ledger.close() == 0
    assert ledger.close() == 0

    with pytest.raises(zbk.LedgerClosedError):
        ledger.append(b"too late")
    with pytest.raises(zbk.LedgerClosedError):
        ledger.sync()


def test_a_writer_that_was_dropped_and_not_closed_answers_and_goes(client: zbk.Client) -> None:
    ledger = client.create_ledger()
    ledger_id = ledger.ledger_id
    futures = [ledger.append_async(b"%d" % number) for number in range(1_000)]
    assert len(client._writers) == 1

    del ledger

    assert [future.result(10) for future in futures] == list(range(1_000))
    wait_until(lambda: not len(client._writers), what="the end of the writer")
    with client.recover_ledger(ledger_id) as reader:
        assert reader.last_add_confirmed == 999


def test_close_waits_for_what_was_appended(client: zbk.Client) -> None:
    ledger = client.create_ledger()
    future = ledger.append_many([b"x" * 100] * 20_000)

    assert ledger.close() == 19_999
    assert future.result(0) == range(20_000)


def test_ledgers_are_listed_and_deleted(client: zbk.Client) -> None:
    first, second = (client.reserve_ledger() for _ in range(2))
    assert {first, second} <= set(client.list_ledgers())
    assert set(client.list_ledgers(second)).isdisjoint({first})
    assert second in client.list_ledgers(second)

    client.delete_ledger(first)

    assert first not in set(client.list_ledgers())
    with pytest.raises(zbk.NoSuchLedgerError):
        client.open_ledger(first)


@pytest.mark.parametrize(
    "sizes", [{"ensemble_size": 2, "write_quorum_size": 3}, {"ack_quorum_size": 0}]
)
def test_impossible_sizes_are_refused(client: zbk.Client, sizes: dict[str, int]) -> None:
    with pytest.raises(zbk.InvalidQuorumError):
        client.create_ledger(**sizes)  # type: ignore[arg-type]  # only sizes


@pytest.mark.parametrize(
    "ledger_type", [zbk.LedgerType.VD_JOURNAL, zbk.LedgerType.VD_BYPASS_JOURNAL]
)
def test_a_striped_volatile_ledger_is_written_synced_closed_and_read(
    client: zbk.Client, ledger_type: zbk.LedgerType
) -> None:
    payloads = [b"%d" % number for number in range(1_000)]
    with client.create_ledger(write_quorum_size=2, ledger_type=ledger_type) as writer:
        writer.append_many(payloads[:600])
        assert writer.sync() == 599
        with client.open_ledger(writer.ledger_id) as reader:
            assert [entry.payload for entry in reader.read(0, 599)] == payloads[:600]
        writer.append_many(payloads[600:])
    with client.open_ledger(writer.ledger_id) as reader:
        assert [entry.payload for entry in reader.read(0, 999)] == payloads


def test_a_striped_volatile_ledger_is_recovered_up_to_its_last_entry(client: zbk.Client) -> None:
    writer = client.create_ledger(write_quorum_size=2, ledger_type=zbk.LedgerType.VD_JOURNAL)
    writer.append_many([b"%d" % number for number in range(100)])

    assert client.sync_ledger(writer.ledger_id) == 99
    with client.recover_ledger(writer.ledger_id) as reader:
        assert reader.last_add_confirmed == 99


def test_more_bookies_than_there_are_is_a_clear_error(cluster: LocalCluster) -> None:
    with (
        zbk.connect(cluster.metadata_uri, connect_timeout_ms=2_000) as client,
        pytest.raises(zbk.NotEnoughBookiesError),
    ):
        client.create_ledger(ensemble_size=4)


def test_a_full_window_slows_the_application_down_and_loses_nothing(
    cluster: LocalCluster,
) -> None:
    with (
        zbk.connect(
            cluster.metadata_uri, pending_size_max="64 KiB", window_size="64 KiB"
        ) as client,
        client.create_ledger() as ledger,
    ):
        futures = [ledger.append_async(b"x" * 1_000) for _ in range(2_000)]
        assert [future.result(20) for future in futures] == list(range(2_000))


def test_a_closed_client_says_so(cluster: LocalCluster) -> None:
    client = zbk.connect(cluster.metadata_uri)
    ledger = client.create_ledger()
    client.close()
    client.close()

    with pytest.raises(zbk.ClientClosedError):
        client.create_ledger()
    with pytest.raises(zbk.ClientClosedError):
        ledger.append(b"x")


@pytest.mark.parametrize("how", ["idle", "pending", "fork"])
def test_a_client_that_nobody_closed_ends_with_the_interpreter(
    cluster: LocalCluster, how: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT],
        env=os.environ | {"ZBK_METADATA": cluster.metadata_uri, "HOW": how},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["end", "closed"]


def test_a_forked_child_gets_a_clear_error(client: zbk.Client) -> None:
    ledger = client.create_ledger()
    pid = os.fork()
    if pid == 0:
        try:
            ledger.append(b"from the child")
        except zbk.ForkedProcessError:
            os._exit(0)
        os._exit(1)

    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    ledger.close()


def test_an_unknown_option_is_named(cluster: LocalCluster) -> None:
    with pytest.raises(zbk.InvalidOptionError, match="window_size"):
        zbk.connect(cluster.metadata_uri, windw_size=3)  # type: ignore[call-arg] # the test


def test_two_writers_of_two_ledgers_do_not_meet(client: zbk.Client) -> None:
    with client.create_ledger() as one, client.create_ledger(ledger_type="VD_JOURNAL") as two:
        for n in range(200):
            one.append_async(b"one %d" % n)
            two.append_async(b"two %d" % n)

    for ledger, word in ((one, b"one"), (two, b"two")):
        with client.open_ledger(ledger.ledger_id) as reader:
            assert payloads_of(reader) == [b"%s %d" % (word, n) for n in range(200)]


def test_bookies_tell_of_themselves(client: zbk.Client, cluster: LocalCluster) -> None:
    wait_until(lambda: len(client.list_bookies()) == 3)
    with client.create_ledger() as ledger:
        ledger.append(b"x" * 1_000)

    infos = [client.bookie_info(bookie.bookie_id) for bookie in cluster.bookies]

    assert all(info.add_entry_count >= 1 for info in infos)
    assert all(info.journal_sync_count >= 1 for info in infos)
    with pytest.raises(zbk.BookieUnavailableError):
        client.bookie_info("b-nobody")


def test_writers_tell_who_they_are(client: zbk.Client) -> None:
    with client.create_ledger() as ledger:
        assert repr(ledger) == f"<LedgerWriter {ledger.ledger_id} PD_JOURNAL 3/3/2 lac=-1 lap=-1>"
