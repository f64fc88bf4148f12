"""A whole bookie in this process, and a client of it; a module may have its own of each."""

from collections.abc import Iterator

import pytest

from tests.support.bookie_here import BookieHere
from zbk.client.api import Client


@pytest.fixture
def world() -> Iterator[BookieHere]:
    made = BookieHere()
    yield made
    made.close()


@pytest.fixture
def client(world: BookieHere) -> Iterator[Client]:
    with world.connect() as made:
        yield made
