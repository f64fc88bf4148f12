"""Program of a neighbor with a client of its own.

``python -m zbk.bench.neighbor_process URI`` reads a ``Job``, opens its ledger, prints
``LedgersOpen`` and appends single entries until the next line. Then it prints ``Measured``.
"""

import sys

from zbk.bench.job import Job, LedgersOpen
from zbk.bench.neighbor import Measured, lone_appends
from zbk.bench.program import report
from zbk.client.api import Client
from zbk.conversion import decode_json
from zbk.errors import ZbkError


def run(uri: str, job: Job) -> Measured:
    """Append until the next line."""
    try:
        with Client(uri, job.config) as client, lone_appends(client, job.load) as end:
            report(LedgersOpen())
            sys.stdin.buffer.readline()
            return Measured(end())
    except ZbkError as error:
        return Measured(error=str(error))


if __name__ == "__main__":
    job = decode_json(sys.stdin.buffer.readline(), Job)
    report(run(sys.argv[1], job))
