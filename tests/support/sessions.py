"""Sessions with metadata in memory, which ``tests/conftest.py`` closes after each test."""

from tests.support.memory_store import MemoryStore, MemoryTree

_opened: list[MemoryStore] = []


def open_session(name: str) -> MemoryStore:
    """Return a session of a new tree."""
    store = MemoryTree(name).open_session()
    _opened.append(store)
    return store


def close_sessions() -> None:
    """Close what was opened since the last call."""
    while _opened:
        _opened.pop().close()
