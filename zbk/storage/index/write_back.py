"""A cache whose changed values are written back later, in flushes, one at a time.

Words: a value is *clean* (the disk has it), *dirty* (changed since the last flush began), *in
flight* (part of the flush under way), or dirty and in flight. Only clean values may be dropped,
the one used longest ago first.

A value has flags that it is in the cache and that it is dirty, so a caller that holds a value needs
no look-up; with thousands of values, look-ups miss the processor's caches. For the same reason a
small cache, which will not evict soon, does not track use.

The cache counts the size of all its values (``size_of``); a caller that makes a value larger or
smaller calls ``resize``.

Owned by one thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar


class Kept:
    """A value that may be in one cache."""

    __slots__ = ("is_dirty", "is_kept")

    def __init__(self) -> None:
        self.is_kept = False  # in the cache
        self.is_dirty = False  # part of the next flush


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Kept)


class WriteBackCache(Generic[K, V]):
    """Values by key.

    Invariants, checked by the tests in ``_check``:
      * every value is in exactly one place: clean, or at least one of dirty and in flight;
      * a value in flight stays until the flush ends, unless it is dropped;
      * the sizes are sums over the values;
      * the flags of values are right.
    """

    def __init__(
        self, size_of: Callable[[V], int] = lambda _value: 1, *, ageless_size: int = 0
    ) -> None:
        """``ageless_size``: up to this size of all values, use is not tracked."""
        self._size_of = size_of
        self._ageless_size = ageless_size
        self.size = 0  # of all values together
        self.dirty_size = 0  # of the next flush
        self._values: dict[K, V] = {}
        self._clean: OrderedDict[K, None] = OrderedDict()
        self._dirty: dict[K, V] = {}
        self._in_flight: dict[K, V] = {}
        self._is_flushing = False
        self.drop_count = 0  # grows when anything is dropped
        self.hit_count = 0  # look-ups that found the value in memory; by the user of the cache
        self.miss_count = 0  # and those that read it from a file

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def peek(self, key: K) -> V | None:
        """Return a value, or ``None``, without tracking its use."""
        return self._values.get(key)

    def get(self, key: K) -> V | None:
        """Return a value, or ``None``, and track its use."""
        value = self._values.get(key)
        if value is not None:
            self.use(key)
        return value

    def use(self, key: K) -> None:
        """Track the use of a value in the cache."""
        if self.size > self._ageless_size and key in self._clean:
            self._clean.move_to_end(key)

    def add(self, key: K, value: V, *, is_dirty: bool) -> None:
        """Add a value that is not in the cache."""
        assert key not in self._values, "a second copy would go its own way"
        assert not value.is_kept, "one place for each"
        self._values[key] = value
        value.is_kept = True
        self.size += self._size_of(value)
        self._clean[key] = None
        if is_dirty:
            self.make_dirty(key, value)

    def make_dirty(self, key: K, value: V) -> None:
        """Mark a value in the cache as dirty, before it changes."""
        assert value.is_kept, "a change outside the cache is lost"
        if not value.is_dirty:
            value.is_dirty = True
            self._dirty[key] = value
            self._clean.pop(key, None)
            self.dirty_size += self._size_of(value)

    def resize(self, value: V, by: int) -> None:
        """Record that a value in the cache has grown by so much, or shrunk."""
        self.size += by
        if value.is_dirty:
            self.dirty_size += by

    def drop(self, key: K) -> None:
        """Drop a value in any state."""
        value = self._values.pop(key, None)
        if value is None:
            return
        for place in (self._clean, self._dirty, self._in_flight):
            place.pop(key, None)
        self._dropped(value)

    def drop_oldest_clean(self) -> K | None:
        """Drop the clean value used longest ago; return its key, or ``None`` if none is clean."""
        if not self._clean:
            return None
        key, _ = self._clean.popitem(last=False)
        self._dropped(self._values.pop(key))
        return key

    def begin_flush(self) -> dict[K, V]:
        """Move all dirty values into flight, and return them."""
        assert not self._is_flushing, "one flush at a time"
        self._is_flushing = True
        self._in_flight, self._dirty = self._dirty, {}
        for value in self._in_flight.values():
            value.is_dirty = False
        self.dirty_size = 0
        return dict(self._in_flight)

    def end_flush(self) -> dict[K, V]:
        """Record that all values in flight are on disk; return those not dropped since."""
        assert self._is_flushing, "no flush was begun"
        self._is_flushing = False
        for key, value in self._in_flight.items():
            if not value.is_dirty:
                self._clean[key] = None
        arrived, self._in_flight = self._in_flight, {}
        return arrived

    def is_clean(self, key: K) -> bool:
        """Return whether the disk has the present state of a value."""
        return key in self._clean

    def _dropped(self, value: V) -> None:
        self.drop_count += 1
        self.resize(value, -self._size_of(value))
        value.is_kept = value.is_dirty = False

    def _check(self) -> None:
        clean, dirty, in_flight = set(self._clean), set(self._dirty), set(self._in_flight)
        assert not clean & (dirty | in_flight), "clean is neither dirty nor in flight"
        assert clean | dirty | in_flight == set(self._values), "every value has its place"
        assert self.size == sum(map(self._size_of, self._values.values())), "sizes are kept"
        assert self.dirty_size == sum(map(self._size_of, self._dirty.values())), "sizes are kept"
        assert all(value.is_kept for value in self._values.values()), "they know that they are here"
        assert dirty == {key for key, value in self._values.items() if value.is_dirty}
