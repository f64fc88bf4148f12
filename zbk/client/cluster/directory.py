"""The addresses and keys of the bookies, from their registrations in the metadata store.

The store calls back with changes, in its own thread, and the directory passes them to the
connections. While the store does not answer, the directory keeps the last registrations.
"""

import threading
from collections.abc import Callable, Mapping

from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.store import Watch
from zbk.metadata.values import BookieRegistration, doors_of
from zbk.protocol.ledger.placement import Candidate
from zbk.security.credentials import BookieDoors
from zbk.system.clock import monotonic_s


class BookieDirectory:
    """The registered bookies, as last reported."""

    def __init__(
        self, registry: BookieRegistry, on_doors: Callable[[Mapping[str, BookieDoors]], None]
    ) -> None:
        self._on_doors = on_doors
        self._changed = threading.Condition()
        self._known: dict[str, BookieRegistration] = {}
        self._available: dict[str, BookieRegistration] = {}
        self._readonly: dict[str, BookieRegistration] = {}
        self._callbacks: tuple[Callable[[], None], ...] = ()
        # the first request may come before the first callback of the watches
        self._set_readonly(registry.readonly())
        self._set_available(registry.available())
        self._watches: list[Watch] = [
            registry.watch_available(self._set_available),
            registry.watch_readonly(self._set_readonly),
        ]

    def candidates(self) -> list[Candidate]:
        """Return the bookies that accept new entries, with their racks, by id."""
        with self._changed:
            found = [self._available[bookie_id] for bookie_id in sorted(self._available)]
        return [Candidate(one.bookie_id, one.rack, frozenset(one.features or ())) for one in found]

    def racks(self) -> dict[str, str]:
        """Return the racks by bookie id: those of read-only bookies, and last ones, too."""
        with self._changed:
            return {bookie_id: one.rack for bookie_id, one in self._known.items()}

    def when_writable_change(self, callback: Callable[[], None]) -> None:
        """Call back whenever the set of bookies that accept new entries has changed.

        The callback runs in a thread of the metadata store and must not block.
        """
        with self._changed:
            self._callbacks = (*self._callbacks, callback)

    def wait_for_writable(self, count: int, timeout_s: float) -> list[str]:
        """Wait until ``count`` bookies are writable or the time is over; return their ids."""
        deadline_s = monotonic_s() + timeout_s
        with self._changed:
            while len(self._available) < count:
                left_s = deadline_s - monotonic_s()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            return sorted(self._available)

    def registrations(self) -> list[BookieRegistration]:
        """Return every registered bookie, by id."""
        with self._changed:
            both = self._readonly | self._available
            return [both[bookie_id] for bookie_id in sorted(both)]

    def close(self) -> None:
        """Cancel the watches."""
        for watch in self._watches:
            watch.cancel()

    def _set_available(self, bookies: Mapping[str, BookieRegistration]) -> None:
        with self._changed:
            is_changed = self._available.keys() != bookies.keys()
            self._available = dict(bookies)
            self._update()
            callbacks = self._callbacks if is_changed else ()
        for callback in callbacks:
            callback()

    def _set_readonly(self, bookies: Mapping[str, BookieRegistration]) -> None:
        with self._changed:
            self._readonly = dict(bookies)
            self._update()

    def _update(self) -> None:
        # the last address of an unregistered bookie stays: it may only have lost its session, and
        # HELLO, not the registration, shows whether it is there
        self._known |= self._readonly | self._available
        self._on_doors({bookie_id: doors_of(found) for bookie_id, found in self._known.items()})
        self._changed.notify_all()
