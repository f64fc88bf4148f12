"""A simulated disk for the tests of storage; a module may have its own."""

import pytest

from tests.support.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()
