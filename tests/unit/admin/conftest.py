"""Logging that a test configures, as a process does, and its end."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Restore the levels and handlers of logging that the test, or what it calls, changes."""
    loggers = [logging.getLogger(), logging.getLogger("zbk")]
    before = [(one.level, list(one.handlers)) for one in loggers]
    yield
    for one, (level, handlers) in zip(loggers, before, strict=True):
        one.setLevel(level)
        one.handlers[:] = handlers
