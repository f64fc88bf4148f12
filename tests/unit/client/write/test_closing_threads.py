"""Threads that close one ledger at the same time: all of them get its end."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

import zbk
from tests.support.bookie_here import ONE, BookieHere
from tests.support.waiting import wait_until
from zbk.client.write.asks import Ask
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.client.write.mailbox import AppendMailbox


@pytest.fixture
def ledger(world: BookieHere) -> Iterator[LedgerWriter]:
    with zbk.connect(world.config.metadata) as client:
        made = client.create_ledger(**ONE)
        made.append(b"one")
        yield made


def test_a_thread_that_closes_while_another_one_requests_it_shares_the_close(
    ledger: LedgerWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = ledger._tell_body
    closes: list[Future[int]] = []

    def tell_late(ask: Ask) -> None:
        if not closes:
            closes.append(ask.future)
            closes.append(ledger._begin_close(10.0))  # by the other thread
        tell(ask)

    monkeypatch.setattr(ledger, "_tell_body", tell_late)

    assert ledger.close() == 0
    assert closes[1] is closes[0]


class LateMailbox:
    """The mailbox of a writer that another thread closes before the first request of a close."""

    def __init__(self, ledger: LedgerWriter) -> None:
        self.ledger = ledger
        self.mailbox: AppendMailbox = ledger._mailbox
        self.ends: list[int] = []

    def ask(self, future: "Future[int]", *, is_close: bool = False) -> None:
        self.ledger._mailbox = self.mailbox
        self.ends.append(self.ledger.close())
        wait_until(lambda: self.mailbox._is_over)
        self.mailbox.ask(future, is_close=is_close)


def test_a_thread_whose_request_comes_after_the_end_of_the_close_gets_the_end(
    ledger: LedgerWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LateMailbox(ledger)
    monkeypatch.setattr(ledger, "_mailbox", late)

    assert ledger.close() == 0
    assert late.ends == [0]
