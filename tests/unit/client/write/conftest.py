"""What the tests of un-synced entries share."""

from collections.abc import Iterator

import pytest

from tests.support.bookie_here import BookieHere


@pytest.fixture
def world() -> Iterator[BookieHere]:
    """A bookie that syncs VD ledgers only when a client asks."""
    made = BookieHere(sync_interval_ms=0)
    yield made
    made.close()
