"""A cache whose changed values are written back later, in flushes, one at a time.

Words: a value is *clean* (the disk has it), *dirty* (changed since the last flush began), *in
flight* (part of the flush under way), or dirty and in flight. Only clean values may be dropped,
the one used longest ago first.

Owned by one thread.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WriteBackCache(Generic[K, V]):
    """Values by key.

    Invariants, checked by the tests in ``_check``:
      * every value is in exactly one place: clean, or at least one of dirty and in flight;
      * what is in flight stays until the flush ends, unless it is dropped.
    """

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self._clean: OrderedDict[K, None] = OrderedDict()
        self._dirty: dict[K, V] = {}
        self._in_flight: dict[K, V] = {}
        self._is_flushing = False

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    @property
    def dirty_count(self) -> int:
        """How many values the next flush will hold."""
        return len(self._dirty)

    def get(self, key: K) -> V | None:
        """Return a value, used just now, or ``None``."""
        value = self._values.get(key)
        if value is not None and key in self._clean:
            self._clean.move_to_end(key)
        return value

    def add(self, key: K, value: V, *, is_dirty: bool) -> None:
        """Take in a value that is not here."""
        assert key not in self._values, "a second copy would go its own way"
        self._values[key] = value
        if is_dirty:
            self._dirty[key] = value
        else:
            self._clean[key] = None

    def make_dirty(self, key: K) -> None:
        """Note that a value that is here is about to change."""
        if key not in self._dirty:
            self._dirty[key] = self._values[key]
            self._clean.pop(key, None)

    def drop(self, key: K) -> None:
        """Forget a value, whatever its state."""
        for place in (self._values, self._clean, self._dirty, self._in_flight):
            place.pop(key, None)

    def drop_oldest_clean(self) -> K | None:
        """Forget the clean value used longest ago; return its key, or ``None`` if none is clean."""
        if not self._clean:
            return None
        key, _ = self._clean.popitem(last=False)
        del self._values[key]
        return key

    def begin_flush(self) -> dict[K, V]:
        """Put everything dirty in flight, and return it."""
        assert not self._is_flushing, "one flush at a time"
        self._is_flushing = True
        self._in_flight, self._dirty = self._dirty, {}
        return dict(self._in_flight)

    def end_flush(self) -> list[V]:
        """Note that everything in flight is on disk; return what of it was not dropped since."""
        assert self._is_flushing, "no flush was begun"
        self._is_flushing = False
        for key in self._in_flight:
            if key not in self._dirty:
                self._clean[key] = None
        arrived = list(self._in_flight.values())
        self._in_flight = {}
        return arrived

    def _check(self) -> None:
        clean, dirty, in_flight = set(self._clean), set(self._dirty), set(self._in_flight)
        assert not clean & (dirty | in_flight), "clean is neither dirty nor in flight"
        assert clean | dirty | in_flight == set(self._values), "every value has its place"
