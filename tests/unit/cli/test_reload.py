import logging
from collections.abc import Iterator
from typing import Any

import pytest

from zbk.cli.reload import Loaded, reload
from zbk.config import AutorecoveryConfig, BookieConfig, LogConfig
from zbk.config.running import RunningOptions
from zbk.errors import InvalidOptionError


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    logger = logging.getLogger("zbk")
    before = logger.level
    logger.setLevel("INFO")
    yield
    logger.setLevel(before)


def loaded(level: str = "info", **options: object) -> Loaded:
    log = LogConfig(level=level)  # type: ignore[arg-type] # a literal
    return Loaded(log, (BookieConfig(**options),))  # type: ignore[arg-type] # options of a bookie


def started(loaded: Loaded) -> list[RunningOptions[Any]]:
    return [RunningOptions(one) for one in loaded.parts]


def test_the_log_level_is_applied(caplog: pytest.LogCaptureFixture) -> None:
    reload(loaded(), lambda: loaded("debug"), started(loaded()))
    assert logging.getLogger("zbk").level == logging.DEBUG
    assert "log level debug; need a restart: none" in caplog.text


def test_other_changes_are_named_without_their_values(caplog: pytest.LogCaptureFixture) -> None:
    now = loaded(rack="secret-rack", read_size_max=1 << 20)
    reload(loaded(), lambda: now, started(loaded()))
    assert "need a restart: bookie.rack, bookie.read_size_max" in caplog.text
    assert "secret-rack" not in caplog.text


def test_each_part_of_a_process_applies_its_own(caplog: pytest.LogCaptureFixture) -> None:
    before = Loaded(LogConfig(), (BookieConfig(), AutorecoveryConfig()))
    now = Loaded(
        LogConfig(),
        (BookieConfig(gc_interval_ms=7), AutorecoveryConfig(brake_hold_ms=8, worker_count=9)),
    )
    bookie, beside = started(before)

    reload(before, lambda: now, [bookie, beside])

    assert (bookie.config.gc_interval_ms, beside.config.brake_hold_ms) == (7, 8)
    assert "applied: autorecovery.brake_hold_ms, bookie.gc_interval_ms;" in caplog.text
    assert "need a restart: autorecovery.worker_count" in caplog.text


def test_a_broken_file_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> Loaded:
        raise InvalidOptionError("level", "loud", "give one of debug, info, warning, error")

    reload(loaded(), load, started(loaded()))
    assert logging.getLogger("zbk").level == logging.INFO
    assert "the configuration stays as it is" in caplog.text
