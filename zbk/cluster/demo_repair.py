"""The last act of ``zbk demo``: the repair of the ledgers of a lost bookie.

An autorecovery process is started. Its auditor detects that a bookie is lost and publishes a task
for each ledger with data there; its worker copies them to the spare bookie. Then a second bookie is
killed, and all entries must still be readable.

Like the other acts it is a generator of steps, without a terminal. Runs in one thread.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import msgspec

from zbk.client.api import Client
from zbk.cluster.local import LocalBookie, LocalCluster
from zbk.errors import UnavailableError
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.system.clock import monotonic_s

LOOK_INTERVAL_S: Final = 0.02
REPAIR_TIMEOUT_S: Final = 120.0


class LostForGood(msgspec.Struct, frozen=True, tag=True):
    """A bookie stays dead; autorecovery was started."""

    index: int
    bookie_id: str
    ledger_count: int  # that have data there


class QueueLength(msgspec.Struct, frozen=True, tag=True):
    """The number of ledgers that wait for repair, or are in repair."""

    task_count: int
    seconds: float  # since autorecovery was started


class MadeWhole(msgspec.Struct, frozen=True, tag=True):
    """No ledger names the lost bookie any more."""

    ledger_count: int
    indexes: list[int]  # of the bookies that hold them now
    seconds: float


class SecondLost(msgspec.Struct, frozen=True, tag=True):
    """One more bookie got SIGKILL."""

    index: int
    bookie_id: str


RepairStep = LostForGood | QueueLength | MadeWhole | SecondLost


def repair(
    cluster: LocalCluster,
    client: Client,
    lost: LocalBookie,
    on_progress: Callable[[str, int], None],
    *,
    timeout_s: float = REPAIR_TIMEOUT_S,
) -> Iterator[RepairStep]:
    """Repair the ledgers of a dead bookie, then kill another one.

    Raises:
        UnavailableError: they were not repaired in time.
    """
    to_repair = _naming(client, lost)
    started_s = monotonic_s()
    cluster.start_autorecovery(
        {"lost_bookie_delay_ms": 0, "brake_hold_ms": 500, "open_ledger_grace_ms": 1_000}
    )
    yield LostForGood(lost.index, lost.bookie_id, len(to_repair))
    yield from _watch_queue(cluster, client, lost, on_progress, timeout_s)
    holders = {
        bookie_id
        for ledger_id in to_repair
        for fragment in client.get_ledger_metadata(ledger_id).fragments
        for bookie_id in fragment.bookies
    }
    indexes = [bookie.index for bookie in cluster.bookies if bookie.bookie_id in holders]
    yield MadeWhole(len(to_repair), indexes, monotonic_s() - started_s)
    second = next(bookie for bookie in cluster.bookies if bookie.index != lost.index)
    cluster.kill(second.index)
    yield SecondLost(second.index, second.bookie_id)


def _watch_queue(
    cluster: LocalCluster,
    client: Client,
    lost: LocalBookie,
    on_progress: Callable[[str, int], None],
    timeout_s: float,
) -> Iterator[QueueLength]:
    """Yield each new length of the queue, until it is empty and all ledgers are repaired."""
    started_s = monotonic_s()
    last_count = 0
    with closing(open_store(cluster.metadata_uri)) as store:
        tasks = UnderreplicationStore(store)
        while True:
            count = sum(1 for _ in tasks.list())
            if count != last_count:
                yield QueueLength(count, monotonic_s() - started_s)
                last_count = count
            on_progress("ledgers to repair", count)
            if not count and not _naming(client, lost):
                return
            if monotonic_s() - started_s > timeout_s:
                raise UnavailableError(
                    f"{count} ledgers of bookie {lost.index} were not repaired after "
                    f"{timeout_s:g} s: see {cluster.folder / 'autorecovery.log'}"
                )
            threading.Event().wait(LOOK_INTERVAL_S)


def _naming(client: Client, bookie: LocalBookie) -> list[int]:
    """Return the ledgers with a fragment on a bookie."""
    return [
        ledger_id
        for ledger_id in client.list_ledgers()
        if any(
            bookie.bookie_id in fragment.bookies
            for fragment in client.get_ledger_metadata(ledger_id).fragments
        )
    ]
