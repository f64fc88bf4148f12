"""Program of one of several client processes that write at the same time.

``python -m zbk.bench.writer_process URI`` reads a ``Job``, opens its ledgers and prints
``LedgersOpen``. After the next line it writes the load and prints ``Written``.
"""

import sys

import msgspec

from zbk.bench.job import Job, LedgersOpen
from zbk.bench.program import report
from zbk.bench.write_load import WriteResult, run_write
from zbk.client.api import Client
from zbk.conversion import decode_json
from zbk.errors import ZbkError
from zbk.system.clock import monotonic_s


class Written(msgspec.Struct, frozen=True):
    """The result; ``error`` says why there is none."""

    started_s: float = 0.0  # of the clock that all processes share
    result: WriteResult | None = None
    error: str = ""


def run(uri: str, job: Job) -> Written:
    """Write the load of the job after the next line."""
    started_s = 0.0

    def wait_for_others(_loops: object) -> None:
        nonlocal started_s
        report(LedgersOpen())
        sys.stdin.buffer.readline()
        started_s = monotonic_s()

    try:
        with Client(uri, job.config) as client:
            return Written(started_s, run_write(client, job.load, before_start=wait_for_others))
    except ZbkError as error:
        return Written(error=str(error))


if __name__ == "__main__":
    job = decode_json(sys.stdin.buffer.readline(), Job)
    report(run(sys.argv[1], job))
