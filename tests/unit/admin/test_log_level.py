"""The log level of a process is changed while it runs, and hides or shows lines at once."""

import logging

import pytest

from zbk.admin import process
from zbk.admin.cluster import Cluster


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("level", process.LEVELS)
def test_a_level_is_applied_and_shown(level: str) -> None:
    cluster = Cluster.__new__(Cluster)  # neither call uses it

    assert process.set_log_level(cluster, {"level": level}) == {"level": level}
    assert process.log_level(cluster, {}) == {"level": level}
    number = logging.getLevelName(level.upper())
    assert logging.getLogger("zbk.storage").isEnabledFor(number)
    assert not logging.getLogger("zbk.storage").isEnabledFor(number - 1)
