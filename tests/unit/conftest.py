"""Fixtures that unit tests share; and what they leave in the loggers of later tests: nothing."""

import logging
from collections.abc import Hashable, Iterator

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


@pytest.fixture
def same_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make journal segments with the same nonce: disks are alike on which the same was done."""
    monkeypatch.setattr("secrets.randbits", lambda _count: 12_345)


@pytest.fixture(scope="module")
def passed() -> set[Hashable]:
    """Return what was started from and was whole; a start from the same has the same outcome."""
    return set()
