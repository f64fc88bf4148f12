"""Program of a writer that is killed: it fills a ledger, then sends adds that get no answer.

``python -m benchmarks.experiments.dying_writer URI SIZE COUNT OUTSTANDING`` prints
``LedgerWritten`` after COUNT entries are acknowledged. Then it reads a line, sends OUTSTANDING
entries one by one, and prints ``AddsSent`` when each has left the writer. It exits with its ledger
open when its standard input ends.

The payloads are those of ``benchmarks.experiments.numbered``.
"""

import os
import sys
import threading
from typing import Final

import msgspec

from benchmarks.experiments.numbered import NumberedPayloads, batches
from zbk.bench.program import report
from zbk.client.api import connect
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.cluster.load import load
from zbk.errors import RequestTimeoutError
from zbk.system.clock import monotonic_s

BATCH_COUNT: Final = 1_000
SEND_TIMEOUT_S: Final = 15.0
LOOK_INTERVAL_S: Final = 0.002


class LedgerWritten(msgspec.Struct, frozen=True):
    """The ledger has all its entries, each acknowledged."""

    ledger_id: int
    acknowledged_count: int


class AddsSent(msgspec.Struct, frozen=True):
    """The remaining adds are in flight."""

    sent_count: int
    acknowledged_count: int  # of all entries of the ledger, by now


def write(uri: str, size: int, count: int, outstanding_count: int) -> None:
    """Write the ledger, send the adds, and wait for the end of standard input."""
    client = connect(uri)
    writer = client.create_ledger(custom_metadata={"purpose": b"bench"})
    payloads = NumberedPayloads(size)
    load(writer, (payloads.batch(first, end) for first, end in batches(count, BATCH_COUNT)))
    report(LedgerWritten(writer.ledger_id, writer.last_add_acknowledged + 1))
    if not sys.stdin.buffer.readline():
        return
    for entry_id in range(count, count + outstanding_count):
        writer.append_async(payloads[entry_id])
    _wait_sent(writer, count + outstanding_count - 1)
    report(AddsSent(outstanding_count, writer.last_add_acknowledged + 1))
    sys.stdin.buffer.readline()


def _wait_sent(writer: LedgerWriter, last_entry_id: int) -> None:
    deadline_s = monotonic_s() + SEND_TIMEOUT_S
    while writer.last_add_pushed < last_entry_id:
        if monotonic_s() > deadline_s:
            raise RequestTimeoutError("adds to the writer", SEND_TIMEOUT_S)
        threading.Event().wait(LOOK_INTERVAL_S)


if __name__ == "__main__":
    write(sys.argv[1], *map(int, sys.argv[2:5]))
    os._exit(0)  # closes nothing, as a killed process
