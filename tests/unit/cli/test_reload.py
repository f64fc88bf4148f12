import logging
from collections.abc import Iterator

import pytest

from zbk.cli.reload import Loaded, reload
from zbk.config import BookieConfig, LogConfig
from zbk.config.running import RunningOptions
from zbk.errors import InvalidOptionError


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    logger = logging.getLogger("zbk")
    before = logger.level
    logger.setLevel("INFO")
    yield
    logger.setLevel(before)


def loaded(level: str = "info", **options: object) -> Loaded[BookieConfig]:
    log = LogConfig(level=level)  # type: ignore[arg-type] # a literal
    return Loaded(log, BookieConfig(**options))  # type: ignore[arg-type] # options of a bookie


def test_the_log_level_is_applied(caplog: pytest.LogCaptureFixture) -> None:
    reload(loaded(), lambda: loaded("debug"), RunningOptions(loaded().main))
    assert logging.getLogger("zbk").level == logging.DEBUG
    assert "log level debug; need a restart: none" in caplog.text


def test_other_changes_are_named_without_their_values(caplog: pytest.LogCaptureFixture) -> None:
    now = loaded(rack="secret-rack", read_size_max=1 << 20)
    reload(loaded(), lambda: now, RunningOptions(loaded().main))
    assert "need a restart: bookie.rack, bookie.read_size_max" in caplog.text
    assert "secret-rack" not in caplog.text


def test_a_broken_file_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> Loaded[BookieConfig]:
        raise InvalidOptionError("level", "loud", "give one of debug, info, warning, error")

    reload(loaded(), load, RunningOptions(loaded().main))
    assert logging.getLogger("zbk").level == logging.INFO
    assert "the configuration stays as it is" in caplog.text
