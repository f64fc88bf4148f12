"""Programs of a measurement: their messages, and their ends."""

from pathlib import Path

import msgspec
import pytest

from zbk.bench.program import Program
from zbk.errors import RequestTimeoutError, UnavailableError

ECHO = """
import sys
for line in sys.stdin:
    print('{"word": "%s"}' % line.strip(), flush=True)
sys.exit(3)
"""


class Word(msgspec.Struct, frozen=True):
    """The answer of the echo."""

    word: str


@pytest.fixture(autouse=True)
def _echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zbk_test_echo.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_what_a_program_reports_is_received_object_by_object() -> None:
    with Program("zbk_test_echo", []) as program:
        program.send("one")
        program.send("two")

        assert program.receive(Word, 15.0) == Word("one")
        assert program.receive(Word, 15.0) == Word("two")


def test_a_program_that_reports_nothing_is_not_waited_for_for_ever() -> None:
    with Program("zbk_test_echo", []) as program, pytest.raises(RequestTimeoutError):
        program.receive(Word, 0.01)


def test_a_program_that_has_ended_is_said_to_have() -> None:
    with (
        Program("zbk_test_no_such_program", []) as program,
        pytest.raises(UnavailableError, match="zbk_test_no_such_program ended with exit code 1"),
    ):
        program.receive(Word, 15.0)


def test_a_program_that_was_killed_is_gone_and_can_be_killed_again() -> None:
    with Program("zbk_test_echo", []) as program:
        program.kill()
        program.kill()
