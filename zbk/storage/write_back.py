"""A cache whose changed values are written back later, in flushes, one at a time.

Words: a value is *clean* (the disk has it), *dirty* (changed since the last flush began), *in
flight* (part of the flush under way), or dirty and in flight. Only clean values may be dropped,
the one used longest ago first.

The cache counts how large its values are together, as ``size_of`` says; whoever changes a value so
that it becomes larger or smaller says so (``resize``).

Owned by one thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WriteBackCache(Generic[K, V]):
    """Values by key.

    Invariants, checked by the tests in ``_check``:
      * every value is in exactly one place: clean, or at least one of dirty and in flight;
      * what is in flight stays until the flush ends, unless it is dropped;
      * sizes are those of the values.
    """

    def __init__(self, size_of: Callable[[V], int] = lambda _value: 1) -> None:
        self._size_of = size_of
        self.size = 0  # of all values together
        self.dirty_size = 0  # of what the next flush will hold
        self._values: dict[K, V] = {}
        self._clean: OrderedDict[K, None] = OrderedDict()
        self._dirty: dict[K, V] = {}
        self._in_flight: dict[K, V] = {}
        self._is_flushing = False
        self.drop_count = 0  # grows when anything is forgotten

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

    def peek(self, key: K) -> V | None:
        """Return a value, or ``None``; whoever is going to change it need not touch its age."""
        return self._values.get(key)

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
        self.size += self._size_of(value)
        if is_dirty:
            self._dirty[key] = value
            self.dirty_size += self._size_of(value)
        else:
            self._clean[key] = None

    def make_dirty(self, key: K) -> V:
        """Return a value, and note that it is about to change.

        Raises:
            KeyError: it is not here.
        """
        value = self._dirty.get(key)
        if value is None:
            value = self._dirty[key] = self._values[key]
            self._clean.pop(key, None)
            self.dirty_size += self._size_of(value)
        return value

    def resize(self, key: K, by: int) -> None:
        """Note that a value that is here has become larger by so much, or smaller."""
        self.size += by
        if key in self._dirty:
            self.dirty_size += by

    def drop(self, key: K) -> None:
        """Forget a value, whatever its state."""
        if key in self._values:
            self.resize(key, -self._size_of(self._values[key]))
            self.drop_count += 1
        for place in (self._values, self._clean, self._dirty, self._in_flight):
            place.pop(key, None)

    def drop_oldest_clean(self) -> K | None:
        """Forget the clean value used longest ago; return its key, or ``None`` if none is clean."""
        if not self._clean:
            return None
        key, _ = self._clean.popitem(last=False)
        self.drop_count += 1
        self.size -= self._size_of(self._values.pop(key))
        return key

    def begin_flush(self) -> dict[K, V]:
        """Put everything dirty in flight, and return it."""
        assert not self._is_flushing, "one flush at a time"
        self._is_flushing = True
        self._in_flight, self._dirty = self._dirty, {}
        self.dirty_size = 0
        return dict(self._in_flight)

    def end_flush(self) -> dict[K, V]:
        """Note that everything in flight is on disk; return what of it was not dropped since."""
        assert self._is_flushing, "no flush was begun"
        self._is_flushing = False
        for key in self._in_flight:
            if key not in self._dirty:
                self._clean[key] = None
        arrived, self._in_flight = self._in_flight, {}
        return arrived

    def is_clean(self, key: K) -> bool:
        """Tell whether the disk has a value as it is here."""
        return key in self._clean

    def _check(self) -> None:
        clean, dirty, in_flight = set(self._clean), set(self._dirty), set(self._in_flight)
        assert not clean & (dirty | in_flight), "clean is neither dirty nor in flight"
        assert clean | dirty | in_flight == set(self._values), "every value has its place"
        assert self.size == sum(map(self._size_of, self._values.values())), "sizes are kept"
        assert self.dirty_size == sum(map(self._size_of, self._dirty.values())), "sizes are kept"
