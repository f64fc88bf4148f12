"""The registry that an application gives to ``zbk.connect``; prometheus-client is not imported."""

from typing import Any, Protocol


class MetricRegistry(Protocol):
    """A ``prometheus_client.CollectorRegistry``."""

    def register(self, collector: Any) -> None:  # noqa: ANN401 - prometheus-client's own
        """Add a collector."""
        ...

    def unregister(self, collector: Any) -> None:  # noqa: ANN401 - as above
        """Remove a collector."""
        ...
