"""Durability chosen late: calls that are answered when entries are on stable storage."""

from collections.abc import Iterator

import pytest

import zbk
from tests.support.bookie_here import ONE, BookieHere
from tests.support.waiting import wait_until
from zbk.client.api import Client
from zbk.client.write.append_future import AppendFuture
from zbk.client.write.durable_append import DurableAppend, durably
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.client.write.mailbox import AppendMailbox
from zbk.config import ClientConfig

VD: LedgerOptions = {**ONE, "ledger_type": zbk.LedgerType.VD_JOURNAL}


@pytest.fixture
def client(world: BookieHere) -> Iterator[Client]:
    # 0: a writer does not sync by itself when it is idle
    with zbk.connect(world.config.metadata, explicit_lac_ms=0) as made:
        yield made


@pytest.fixture
def ledger(client: Client) -> LedgerWriter:
    return client.create_ledger(**VD)


def test_a_durable_append_is_answered_behind_the_lac(ledger: LedgerWriter) -> None:
    assert ledger.append(b"volatile") == 0
    assert ledger.last_add_confirmed == -1

    assert ledger.append(b"durable", durable=True) == 1

    assert ledger.last_add_confirmed == 1


def test_durable_batches_and_futures_give_the_ids(ledger: LedgerWriter) -> None:
    futures = [ledger.append_async(b"x", durable=True) for _ in range(3)]
    many = ledger.append_many([b"y", b"z"], durable=True)

    assert [future.result(30) for future in futures] == [0, 1, 2]
    assert many.result(30) == range(3, 5)
    assert ledger.last_add_confirmed == 4
    assert ledger.append_many([], durable=True).result(30) == range(5, 5)


def test_a_wait_for_an_entry_ends_with_it_and_not_with_later_ones(ledger: LedgerWriter) -> None:
    ids = ledger.append_many([b"x"] * 10).result(30)
    assert ledger.last_add_confirmed == -1

    assert ledger.durable(ids[3]).result(30) >= 3

    called: list[int] = []
    ledger.durable(0).add_done_callback(lambda future: called.append(future.result()))
    ledger.sync()
    assert called == [9]


def test_on_a_pd_ledger_each_append_is_durable(client: Client) -> None:
    with client.create_ledger(**ONE) as ledger:
        assert ledger.append(b"x", durable=True) == 0
        assert ledger.durable(0).result(30) == 0


@pytest.mark.parametrize("policy", [3, "3 B", "20ms"])
def test_a_policy_of_the_ledger_syncs_without_a_call(client: Client, policy: int | str) -> None:
    ledger = client.create_ledger(**(VD | {"sync_every": policy}))
    for _ in range(3):
        ledger.append(b"x")

    wait_until(lambda: ledger.last_add_confirmed == 2, what="the writer's own sync")


def test_the_writer_of_a_reserved_ledger_has_the_policy(client: Client) -> None:
    with pytest.raises(zbk.ArgumentValueError, match="open_for_append"):
        client.reserve_ledger(**(VD | {"sync_every": 1}))
    ledger_id = client.reserve_ledger(**VD)
    ledger = client.open_for_append(ledger_id, sync_every=1)

    ledger.append(b"x")

    wait_until(lambda: ledger.last_add_confirmed == 0, what="the writer's own sync")


def test_a_pd_ledger_has_no_policy_and_stays_as_it_was(client: Client) -> None:
    with pytest.raises(zbk.ArgumentValueError, match="PD_JOURNAL"):
        client.create_ledger(**(ONE | {"sync_every": "1s"}))
    ledger_id = client.reserve_ledger(**ONE)
    with pytest.raises(zbk.ArgumentValueError, match="PD_JOURNAL"):
        client.open_for_append(ledger_id, sync_every=1)

    assert client.open_for_append(ledger_id).append(b"x") == 0


def test_wrong_arguments_add_nothing(ledger: LedgerWriter) -> None:
    for call in (
        lambda: ledger.append(b"x", durable=1),  # type: ignore[arg-type]
        lambda: ledger.append_many([b"x"], durable="yes"),  # type: ignore[arg-type]
        lambda: ledger.durable(True),  # noqa: FBT003 - no keyword is meant
        lambda: ledger.durable("0"),  # type: ignore[arg-type]
    ):
        with pytest.raises(zbk.ArgumentTypeError):
            call()
    for entry_id in (-1, 0, 1):
        with pytest.raises(zbk.ArgumentValueError):
            ledger.durable(entry_id)
    with pytest.raises(zbk.EntryTooLargeError):
        ledger.append(bytes(1 << 27), durable=True)
    assert ledger.last_add_pushed == -1
    assert ledger.append(b"x") == 0
    with pytest.raises(zbk.ArgumentValueError, match="the last entry is 0"):
        ledger.durable(1)


def test_a_durable_append_after_the_close_is_refused_and_a_wait_is_answered(
    ledger: LedgerWriter,
) -> None:
    ledger.append(b"x")
    assert ledger.close() == 0

    with pytest.raises(zbk.LedgerClosedError):
        ledger.append(b"y", durable=True)


def test_a_client_that_is_closed_refuses_both(client: Client, ledger: LedgerWriter) -> None:
    ledger.append(b"x")
    client.close()

    with pytest.raises((zbk.ClientClosedError, zbk.LedgerClosedError)):
        ledger.append_many([b"y"], durable=True)
    with pytest.raises(zbk.ClientClosedError):
        ledger.durable(0)


ENDED = zbk.LedgerClosedError(7)


def test_a_durable_append_that_waits_for_room_gets_the_error_of_the_writers_end() -> None:
    mailbox = AppendMailbox(100, lambda _is_lone: None)

    def append() -> AppendFuture:  # the writer ends while it waits
        mailbox.end(ENDED, is_over=True)
        for future in mailbox.unanswered():
            future.set_exception(ENDED)
        raise ENDED

    with pytest.raises(zbk.LedgerClosedError):
        durably(append, lambda _ask: None, mailbox)


def test_a_durable_append_may_fail_while_the_writer_ends() -> None:
    class Raced(DurableAppend):
        """The end of the writer comes right after each look."""

        def done(self) -> bool:
            was_done = super().done()
            if not was_done:
                self.set_exception(ENDED)
            return was_done

    acknowledged, durable = AppendFuture(), Raced(lambda _ask: None)
    acknowledged.set_exception(zbk.LedgerFencedError(7))

    durable._on_acknowledged(acknowledged)

    assert durable.exception(0) is not None


def test_a_writer_may_end_while_a_call_fails_by_itself(
    client: Client, ledger: LedgerWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [client.create_ledger(**VD) for _ in range(ClientConfig().writer_actor_count)]
    failed = AppendFuture()
    failed.set_exception(ENDED)
    monkeypatch.setattr(AppendMailbox, "unanswered", lambda _self: [failed])

    ledger.close()

    for other in others:  # one has the same actor
        assert other.append(b"x") == 0
