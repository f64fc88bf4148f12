"""A cache with flushes: what is dirty or in flight stays; what is clean may go, oldest first."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zbk.storage.index.write_back import Kept, WriteBackCache

keys = st.integers(0, 6)


class Number(Kept):
    """What is kept."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class CacheMachine(RuleBasedStateMachine):
    """The twin keeps what the disk has, and what is newer in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: WriteBackCache[int, Number] = WriteBackCache()
        self.newest: dict[int, int] = {}
        self.on_disk: dict[int, int] = {}
        self.in_flight: dict[int, int] = {}
        self.number = 0
        self.is_flushing = False
        self.ever: list[Number] = []

    @rule(key=keys)
    def change(self, key: int) -> None:
        value = self.cache.get(key)
        if value is None:
            value = Number(self.on_disk.get(key, 0))
            self.cache.add(key, value, is_dirty=False)
            self.ever.append(value)
        assert value.number == self.newest.get(key, 0)
        self.number += 1
        self.cache.make_dirty(key, value)
        value.number = self.newest[key] = self.number

    @rule(key=keys)
    def look(self, key: int) -> None:
        value = self.cache.get(key)
        if value is None:
            assert self.on_disk.get(key, 0) == self.newest.get(key, 0), "nothing newer was lost"
        else:
            assert value.number == self.newest.get(key, 0)

    @rule()
    def drop_oldest(self) -> None:
        size = len(self.cache)
        key = self.cache.drop_oldest_clean()
        assert len(self.cache) == size - (key is not None)
        assert key is None or key not in self.cache

    @rule(key=keys)
    def drop(self, key: int) -> None:
        self.cache.drop(key)
        for place in (self.newest, self.on_disk, self.in_flight):
            place.pop(key, None)

    @precondition(lambda self: not self.is_flushing)
    @rule()
    def begin_flush(self) -> None:
        self.is_flushing = True
        self.in_flight = {key: value.number for key, value in self.cache.begin_flush().items()}
        assert not self.cache._dirty

    @precondition(lambda self: self.is_flushing)
    @rule()
    def end_flush(self) -> None:
        self.is_flushing = False
        assert len(self.cache.end_flush()) == len(self.in_flight)
        self.on_disk |= self.in_flight
        self.in_flight = {}

    @invariant()
    def every_value_has_its_place(self) -> None:
        self.cache._check()
        here = [value for key in self.cache if (value := self.cache.peek(key))]
        assert [value for value in self.ever if value.is_kept] == sorted(here, key=self.ever.index)


CacheMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestCacheMachine = CacheMachine.TestCase


def test_the_oldest_clean_value_goes_first() -> None:
    cache: WriteBackCache[str, Number] = WriteBackCache()
    values = {key: Number(1) for key in "abc"}
    for key, value in values.items():
        cache.add(key, value, is_dirty=False)
    cache.get("a")
    cache.make_dirty("b", values["b"])

    assert [cache.drop_oldest_clean() for _ in range(3)] == ["c", "a", None]
    assert list(cache) == ["b"]


def test_what_is_used_is_noted_once_there_is_more_than_a_little() -> None:
    cache: WriteBackCache[str, Number] = WriteBackCache(ageless_size=2)
    for key in "ab":
        cache.add(key, Number(1), is_dirty=False)
    cache.get("a")
    cache.add("c", Number(1), is_dirty=False)
    cache.use("b")

    assert [cache.drop_oldest_clean() for _ in range(4)] == ["a", "c", "b", None]
