"""The values that one scrape finds, as sources give them.

>>> samples = Samples()
>>> samples.set("zbk_bookie_adds_total", 3, "pd_journal")
>>> samples.values["zbk_bookie_adds_total"]
{('pd_journal',): 3}
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from zbk.metrics.buckets import Buckets


class Samples:
    """Values by metric and label values. One thread."""

    def __init__(self) -> None:
        self.values: dict[str, dict[tuple[str, ...], float]] = {}
        self.histograms: dict[str, dict[tuple[str, ...], Buckets]] = {}
        self.infos: dict[str, Mapping[str, str]] = {}

    def set(self, name: str, value: float, *labels: str) -> None:
        """Put the value of a counter or gauge; ``labels`` in the order of the table."""
        self.values.setdefault(name, {})[labels] = value

    def put_buckets(self, name: str, buckets: Buckets, *labels: str) -> None:
        """Put a histogram."""
        self.histograms.setdefault(name, {})[labels] = buckets

    def put_info(self, name: str, fields: Mapping[str, str]) -> None:
        """Put an info metric."""
        self.infos[name] = fields


Source: TypeAlias = Callable[[Samples], None]
"""Puts the values of one part of a process into samples. It reads plain numbers and never waits."""
