"""The definition of a metric: one row of the table."""

from typing import Final, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["counter", "gauge", "histogram", "info"]

Process: TypeAlias = Literal["bookie", "autorecovery", "client", "console"]

Labels: TypeAlias = dict[str, tuple[str, ...]]

LATENCY_BOUNDS_US: Final = (
    *(50, 100, 250, 500),
    *(1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000),
)
"""Upper bounds of the buckets of all latencies, in microseconds."""


class Metric(msgspec.Struct, frozen=True):
    """One metric.

    ``labels`` has, for each label, the values that are exposed from the start, at 0. A label whose
    values depend on the process, such as a directory, has none.
    """

    name: str
    kind: Kind
    help: str
    processes: tuple[Process, ...] = ("bookie",)
    labels: Labels = {}

    @property
    def unit(self) -> str:
        """The unit that the name states; "" for a plain number."""
        stem = self.name.removesuffix("_total")
        return next((one for one in ("seconds", "bytes", "info") if stem.endswith(f"_{one}")), "")
