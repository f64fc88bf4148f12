"""The timeline of a cluster without a console: a collector of its own, from now on."""

from typing import Final, Self

from zbk.console.collector import Collector
from zbk.console.history import Event
from zbk.errors import MetadataUnavailableError

FIRST_LOOK_S: Final = 10.0
"""What happened before the first look is no event."""


class WatchedTimeline:
    """Watches the cluster at a metadata address; a context manager.

    Raises:
        InvalidOptionError: the address is malformed, or no cluster is there.
        MetadataUnavailableError: the store does not answer.
    """

    def __init__(self, metadata: str) -> None:
        self._collector = Collector(metadata)
        self._after = 0

    def __enter__(self) -> Self:
        self._collector.connection()
        self._collector.start()
        self._collector.wait_first_look(FIRST_LOOK_S)
        return self

    def __exit__(self, *_error: object) -> None:
        self._collector.stop()

    def fresh(self) -> list[Event]:
        """Return the events that were not returned before, the oldest first.

        Raises:
            MetadataUnavailableError: there are no new figures of the cluster.
        """
        found = self._collector.history.events.after(self._after)
        if found:
            self._after = found[-1].number
        elif self._collector.error:
            raise MetadataUnavailableError(self._collector.metadata, self._collector.error)
        return found
