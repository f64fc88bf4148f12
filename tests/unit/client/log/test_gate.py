"""The gate of a log's appends."""

import threading
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tests.support.interrupts import InterruptedLock, raising_handlers
from zbk.client.log.gate import AppendGate
from zbk.client.write.ledger_writer import LedgerWriter


class PatientLedger:
    """A ledger that takes every append."""

    ledger_id = 7


def send(_writer: LedgerWriter, _left_s: float) -> "Future[Any]":
    return Future()


def test_an_interrupted_append_leaves_the_gate_to_other_threads() -> None:
    gate = AppendGate(lambda: None)
    gate.switch(cast("LedgerWriter", PatientLedger()))
    gate._lock = InterruptedLock(gate._lock)  # type: ignore[assignment]
    with raising_handlers(), pytest.raises(KeyboardInterrupt):
        gate.append(send, [b"interrupted"], 5.0)

    ids: list[int] = []
    other = threading.Thread(target=lambda: ids.append(gate.append(send, [b"other"], 5.0)[0]))
    other.start()
    other.join()

    assert ids == [7]
    assert (gate.entry_count, gate.size) == (1, 5)
