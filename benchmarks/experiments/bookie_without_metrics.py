"""``zbk bookie run`` that observes no durations: what the cost of metrics is compared with."""

import sys

from zbk.cli.main import cli
from zbk.metrics.buckets import Buckets


class _NoBuckets:
    """Counts nothing."""

    def observe(self, duration_us: int) -> None:
        """Ignore a duration."""


if __name__ == "__main__":
    Buckets.observe = _NoBuckets.observe  # type: ignore[method-assign, assignment]
    cli(["bookie", "run", "--http", "off", *sys.argv[1:]], prog_name="zbk")
