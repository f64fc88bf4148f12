"""When a writer syncs because its application asked for it once: after a time, bytes or entries.

The writer demands a round of syncs when what is acknowledged and not durable

    every_ms      has been sent for so long
    every_size    has so many bytes of payload
    every_count   has so many entries

whichever comes first. So a loss of power of all bookies takes no more than that, and what is added
while a round runs. Source: the log.flush.interval settings of Apache Kafka.
"""

import msgspec

from zbk.protocol.write.write_path import WritePath


class SyncEvery(msgspec.Struct, frozen=True):
    """A policy; 0 is no limit of the kind."""

    every_ms: int = 0
    every_size: int = 0
    every_count: int = 0


class SyncPolicy:
    """The policy of one writer."""

    __slots__ = ("_every", "_path")

    def __init__(self, every: SyncEvery, path: WritePath) -> None:
        self._every = every
        self._path = path

    def is_due(self, now_ms: int) -> bool:
        """Return whether to sync now."""
        every, path = self._every, self._path
        unsynced = path.unsynced
        if unsynced is None:
            return False
        size, sent_ms = unsynced
        return (
            0 < every.every_ms <= now_ms - sent_ms
            or 0 < every.every_size <= size
            or 0 < every.every_count <= path.last_acked_id - path.lac
        )

    @property
    def due_ms(self) -> int | None:
        """When to sync, if nothing else is appended; ``None``: never."""
        unsynced = self._path.unsynced
        if unsynced is None or not self._every.every_ms:
            return None
        return unsynced[1] + self._every.every_ms
