"""One of several client processes that write at the same time.

``python -m zbk.bench.writer_process URI`` hears a ``Job``, opens its ledgers and tells
``LedgersOpen``. When it hears a line it writes, and tells ``Written``.
"""

import sys

import msgspec

from zbk.bench.load import WriteLoad
from zbk.bench.program import tell
from zbk.bench.write_load import WriteResult, run_write
from zbk.client.api import Client
from zbk.config import ClientConfig
from zbk.errors import ZbkError
from zbk.system.clock import monotonic_s


class Job(msgspec.Struct, frozen=True):
    """What this process writes."""

    load: WriteLoad
    config: ClientConfig


class LedgersOpen(msgspec.Struct, frozen=True):
    """It waits for the others."""


class Written(msgspec.Struct, frozen=True):
    """What came of it; ``error`` says why there is nothing."""

    started_s: float = 0.0  # of the clock that all processes share
    result: WriteResult | None = None
    error: str = ""


def run(uri: str, job: Job) -> Written:
    """Write as the job says, once a line is heard."""
    started_s = 0.0

    def wait_for_others(_loops: object) -> None:
        nonlocal started_s
        tell(LedgersOpen())
        sys.stdin.buffer.readline()
        started_s = monotonic_s()

    try:
        with Client(uri, job.config) as client:
            return Written(started_s, run_write(client, job.load, before_start=wait_for_others))
    except ZbkError as error:
        return Written(error=str(error))


if __name__ == "__main__":
    heard = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    tell(run(sys.argv[1], heard))
