"""Programs of a measurement: what is heard of them, and how they end."""

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
    """What the echo tells."""

    word: str


@pytest.fixture(autouse=True)
def _echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zbk_test_echo.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_what_a_program_tells_is_heard_object_by_object() -> None:
    with Program("zbk_test_echo", []) as program:
        program.tell("one")
        program.tell("two")

        assert program.hear(Word, 15.0) == Word("one")
        assert program.hear(Word, 15.0) == Word("two")


def test_a_program_that_tells_nothing_is_not_waited_for_for_ever() -> None:
    with Program("zbk_test_echo", []) as program, pytest.raises(RequestTimeoutError):
        program.hear(Word, 0.01)


def test_a_program_that_has_ended_is_said_to_have() -> None:
    with (
        Program("zbk_test_no_such_program", []) as program,
        pytest.raises(UnavailableError, match="zbk_test_no_such_program ended with exit code 1"),
    ):
        program.hear(Word, 15.0)


def test_a_program_that_was_killed_is_gone_and_can_be_killed_again() -> None:
    with Program("zbk_test_echo", []) as program:
        program.kill()
        program.kill()
