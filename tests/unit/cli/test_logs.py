"""Log lines of a server process."""

import json
import logging
import sys

from zbk.cli.logs import JsonFormatter, TextFormatter


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
