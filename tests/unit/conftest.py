"""What unit tests leave behind: nothing in the loggers that later tests use."""

import logging
from collections.abc import Iterator

import pytest


def _logging() -> list[object]:
    loggers = [logging.getLogger(), logging.getLogger("zbk")]
    return [(one.name, one.level, [type(own) for own in one.handlers]) for one in loggers]


@pytest.fixture(scope="module", autouse=True)
def _logging_is_as_before() -> Iterator[None]:
    """Fail a module that leaves a level or a handler: they hide or show the lines of others."""
    before = _logging()
    yield
    assert _logging() == before
