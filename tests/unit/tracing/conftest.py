"""What the tests of spans share."""

import pytest

from tests.support.traces import Traces
from tests.support.traces import traces as recorded


@pytest.fixture
def traces() -> Traces:
    made = recorded()
    made.clear()
    return made
