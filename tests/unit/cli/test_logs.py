"""Log lines of a server process."""

import json
import logging
import sys

import pytest

from zbk.cli.logs import JsonFormatter, TextFormatter
from zbk.system.event_log import EventLog, Names


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("zbk.bookie", logging.INFO, "", 0, message, arguments, None)
    made.created = 1_700_000_000.25
    vars(made).update(extra)
    return made


def test_a_text_line_has_time_level_logger_and_message() -> None:
    line = TextFormatter().format(record("READY %s", "bookie-a"))

    assert line == "2023-11-14T22:13:20.250Z INFO    zbk.bookie: READY bookie-a"


def test_a_json_line_has_extra_fields_of_its_own() -> None:
    line = JsonFormatter().format(record("READY", address="tcp://h:1", odd={1, 2}))

    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "logger": "zbk.bookie",
        "event": "READY",
        "message": "READY",
        "address": "tcp://h:1",
        "odd": "{1, 2}",
    }
    assert "\n" not in line


def test_the_event_of_a_json_line_is_constant_and_the_values_are_fields() -> None:
    given = JsonFormatter().format(record("READY %s", "b", event="bookie.ready", bookie_id="b"))
    assert json.loads(given)["event"] == "bookie.ready"
    assert json.loads(given)["message"] == "READY b"
    assert json.loads(given)["bookie_id"] == "b"
    derived = json.loads(JsonFormatter().format(record("%d of %d bookies", 2, 3)))
    assert derived["event"] == "%d of %d bookies"
    assert derived["values"] == [2, 3]


def test_an_exception_is_in_both() -> None:
    made = record("failed")
    try:
        int("why")
    except ValueError:
        made.exc_info = sys.exc_info()

    assert TextFormatter().format(made).endswith("'why'")
    assert json.loads(JsonFormatter().format(made))["exception"].endswith("'why'")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> EventLog:
    caplog.set_level(logging.INFO, logger="zbk.test")
    return EventLog("zbk.test")


def test_an_event_has_a_constant_name_a_text_and_its_values_as_fields(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    text = "%(free_size)d bytes of %(path)s, beside %(others)s; %(rest)s"
    log.warning("disk.low", text, free_size=7, path="/d", others=Names(["a", "b"]), rest=Names())

    (made,) = caplog.records
    line = json.loads(JsonFormatter().format(made))
    del line["time"]
    assert line == {
        "level": "warning",
        "logger": "zbk.test",
        "event": "disk.low",
        "message": "7 bytes of /d, beside a, b; none",
        "free_size": 7,
        "path": "/d",
        "others": ["a", "b"],
        "rest": [],
    }
    assert TextFormatter().format(made).endswith(" zbk.test: 7 bytes of /d, beside a, b; none")
    assert vars(made)["event"] == "disk.low"
    assert made.filename == "test_logs.py"


def test_an_event_without_values_is_logged_as_it_is(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.info("disk.full", "the disk is full")

    assert [(one.getMessage(), vars(one)["event"]) for one in caplog.records] == [
        ("the disk is full", "disk.full")
    ]


def test_each_method_logs_at_its_level_and_a_hidden_level_logs_nothing(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    for tell in (log.debug, log.info, log.warning, log.error, log.critical):
        tell("an.event", "text")
    log.log(logging.ERROR, "an.event", "text")
    log.log(logging.DEBUG, "an.event", "text")

    levels = [one.levelname for one in caplog.records]
    assert levels == ["INFO", "WARNING", "ERROR", "CRITICAL", "ERROR"]


def test_the_traceback_of_an_event_is_that_of_the_exception(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    failure = ValueError("why")
    log.error("an.event", "it failed", exc_info=failure)
    log.critical("an.event", "it failed", exc_info=None)
    try:
        raise failure
    except ValueError:
        log.exception("an.event", "it failed")

    with_it, without_it, handled = (JsonFormatter().format(one) for one in caplog.records)
    assert json.loads(with_it)["exception"] == "ValueError: why"
    assert "exception" not in json.loads(without_it)
    assert json.loads(handled)["exception"].endswith("ValueError: why")
