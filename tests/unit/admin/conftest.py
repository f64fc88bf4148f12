"""The admin API, served; and logging that a test configures, as a process does, and its end."""

import logging
from collections.abc import Iterator

import pytest

from tests.support.served_api import Api, serving
from zbk.admin.access import Access


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Restore the levels and handlers of logging that the test, or what it calls, changes."""
    loggers = [logging.getLogger(), logging.getLogger("zbk")]
    before = [(one.level, list(one.handlers)) for one in loggers]
    yield
    for one, (level, handlers) in zip(loggers, before, strict=True):
        one.setLevel(level)
        one.handlers[:] = handlers


@pytest.fixture
def api() -> Iterator[Api]:
    """Serve the API with all actions."""
    yield from serving(Access(is_loopback=True, has_actions=True))


@pytest.fixture
def reading() -> Iterator[Api]:
    """Serve the API without actions."""
    yield from serving(Access(is_loopback=True))
