"""What a reader learns while it reads, and how it ends."""

from typing import Any, cast

import msgspec
import pytest

from tests.support.bookie_here import ONE, BookieHere
from tests.support.waiting import wait_until
from zbk.client.api import Client
from zbk.client.calls import connection
from zbk.client.cluster.requests import ReplyBox
from zbk.client.read.ledger_reader import LedgerReader
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.errors import ClientClosedError, ForkedProcessError, ReaderClosedError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import Fragment


def test_reads_raise_the_lac_of_their_reader(client: Client) -> None:
    writer = client.create_ledger(**ONE)
    reader = client.open_ledger(writer.ledger_id)
    assert reader.last_add_confirmed == -1
    for number in range(10):
        writer.append(b"%d" % number)

    found = [bytes(entry.payload) for entry in reader.read_unconfirmed(0, 9)]

    assert found == [b"%d" % number for number in range(10)]
    lac = reader.last_add_confirmed
    assert lac >= 8  # the last entry has the LAC of before
    assert len(list(reader.read(0, lac))) == lac + 1
    writer.close()


def test_what_a_bookie_tells_does_not_lower_the_lac_of_a_reader(world: BookieHere) -> None:
    with world.connect(explicit_lac_ms=0) as client:
        writer = client.create_ledger(**ONE)
        writer.append_many([b"%d" % number for number in range(10)]).result(20)
        writer.append(b"10")
        reader = client.open_ledger(writer.ledger_id)
        assert reader.last_add_confirmed == 9
        reader.learn(reader.metadata, 10)

        assert [entry.entry_id for entry in reader.read(0, 3)] == [0, 1, 2, 3]

        assert reader.last_add_confirmed == 10


def test_what_moved_to_another_bookie_is_read_there(client: Client) -> None:
    """The replicas were copied after the metadata were read."""
    writer = client.create_ledger(**ONE)
    writer.append(b"x")
    writer.close()
    setup = client.open_ledger(writer.ledger_id)._setup
    now = setup.metadata
    before = msgspec.structs.replace(now, fragments=(Fragment(0, ("gone",)),))
    reader = LedgerReader(msgspec.structs.replace(setup, metadata=before))

    assert [entry.payload for entry in reader.read(0, 0)] == [b"x"]
    assert reader.metadata == now


def test_a_closed_client_ends_a_read_between_two_batches(world: BookieHere) -> None:
    client = world.connect()
    writer = client.create_ledger(**ONE)
    for _ in range(4):
        writer.append(b"x" * (1 << 20))
    last = writer.close()
    batches = client.open_ledger(writer.ledger_id).read_batches(0, last)
    next(batches)
    replies = cast("Any", batches)._box._items
    wait_until(lambda: not replies.empty(), what="the next batch")

    client.close()

    with pytest.raises(ClientClosedError):
        next(batches)


def test_a_read_that_continues_in_a_forked_child_is_refused_at_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that receives replies is in the parent process."""
    writer = client.create_ledger(**ONE)
    writer.append(b"x")
    last = writer.close()
    batches = client.open_ledger(writer.ledger_id).read_batches(0, last, timeout=1.0)

    with monkeypatch.context() as child:
        child.setattr(connection, "process_id", lambda: -1)
        child.setattr(ReplyBox, "deliver", lambda _box, _news: None)
        with pytest.raises(ForkedProcessError):
            next(batches)


def test_a_closed_reader_says_that_it_is_closed_and_not_the_ledger(client: Client) -> None:
    writer = client.create_ledger(**ONE)
    reader = client.open_ledger(writer.ledger_id)
    reader.close()
    reader.close()

    for call in (
        reader.read_last_add_confirmed,
        reader.tail,
        lambda: reader.read_unconfirmed(0, 0),
    ):
        with pytest.raises(ReaderClosedError, match=f"reader of ledger {writer.ledger_id} is cl"):
            call()
    assert writer.append(b"goes on") == 0


def test_a_tail_ends_with_its_reader(client: Client) -> None:
    writer = client.create_ledger(**ONE)
    writer.append(b"0")
    writer.append(b"1")
    reader = client.open_ledger(writer.ledger_id)
    tail = reader.tail()
    assert next(tail).entry_id == 0

    reader.close()

    left = [entry.entry_id for entry in tail]
    assert left in ([], [1]), "the second one may have come with the first"


def test_a_tail_sees_the_last_entries_of_a_vd_writer_that_is_idle(client: Client) -> None:
    writer = client.create_ledger(**LedgerOptions(**ONE, ledger_type=LedgerType.VD_JOURNAL))
    writer.append_many([b"0", b"1"]).result(20)

    with client.open_ledger(writer.ledger_id) as reader:
        tail = reader.tail(timeout=30.0)
        assert [next(tail).entry_id for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("ledger_type", list(LedgerType))
def test_the_first_look_after_a_sync_sees_what_was_synced(
    client: Client, world: BookieHere, ledger_type: LedgerType
) -> None:
    writer = client.create_ledger(**LedgerOptions(**ONE, ledger_type=ledger_type))
    with world.connect() as other:
        for number in range(20):
            writer.append_async(b"%d" % number)
            synced_id = writer.sync()
            assert synced_id == number
            with other.open_ledger(writer.ledger_id) as reader:
                assert reader.last_add_confirmed == synced_id


@pytest.mark.parametrize(
    "payloads", [[b"alike"] * 40, [b"x" * n for n in range(40)], [b"x" * 100_000, b""]]
)
def test_a_payload_is_bytes_whatever_way_it_comes(client: Client, payloads: list[bytes]) -> None:
    writer = client.create_ledger(**ONE)
    writer.append_many(payloads).result(20)
    last = writer.close()
    reader = client.open_ledger(writer.ledger_id)

    ways = (reader.read(0, last), reader.read_unconfirmed(0, last), reader.tail())
    for entries in ways:
        found: list[bytes] = [entry.payload for entry in entries]
        assert (found, {type(one) for one in found}) == (payloads, {bytes})
