"""The cost of a load: CPU, memory and disk of the client and of the bookies.

The bookies report theirs before and after the load; the client's cost is that of this process.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from zbk.client.api import Client
from zbk.system.process import usage


class Cost(msgspec.Struct, frozen=True):
    """The cost of a load. Bookies: the whole cluster together; memory: the largest one."""

    client_cpu_us_per_entry: float
    bookie_cpu_us_per_entry: float
    client_rss_size: int
    bookie_rss_size_max: int
    disk_write_size: int
    journal_sync_count: int


class Meter:
    """Reads the resources that client and bookies have used."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._before = usage()
        self._infos = self._ask()

    def cost(self, entry_count: int) -> Cost:
        """Return the resources used since the meter was created."""
        mine = usage().since(self._before)
        after = self._ask()
        pairs = [(info, self._infos[key]) for key, info in after.items() if key in self._infos]

        def grown(field: Callable[[Any], int]) -> int:
            return sum(field(now) - field(then) for now, then in pairs)

        count = max(1, entry_count)
        return Cost(
            client_cpu_us_per_entry=mine.cpu_ms * 1000 / count,
            bookie_cpu_us_per_entry=grown(lambda info: info.cpu_ms) * 1000 / count,
            client_rss_size=mine.rss_size,
            bookie_rss_size_max=max((now.rss_size for now, _ in pairs), default=0),
            disk_write_size=grown(lambda info: info.disk_write_size),
            journal_sync_count=grown(lambda info: info.journal_sync_count),
        )

    def wire_batches(self) -> int:
        """Return how many batches all bookies together have received."""
        return sum(
            now.add_batch_count - self._infos[key].add_batch_count
            for key, now in self._ask().items()
            if key in self._infos
        )

    def _ask(self) -> dict[str, Any]:
        return {
            bookie.bookie_id: self._client.bookie_info(bookie.bookie_id)
            for bookie in self._client.list_bookies()
        }
