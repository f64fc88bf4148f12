"""A metadata store in memory."""

from collections.abc import Iterator

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore(MemoryTree())
    yield opened
    opened.close()
