"""A procedure gets its answers where it waits, and ends once."""

import pytest

from zbk.errors import MetadataUnavailableError, NoSuchLedgerError, ZbkError
from zbk.protocol.procedure import Procedure, Steps


def _steps() -> Steps[str, list[object]]:
    answers: list[object] = []
    try:
        answers.append((yield "first"))
    except MetadataUnavailableError as error:
        answers.append(error)
    answers.append((yield "second"))
    return answers


def test_answers_come_where_the_procedure_waits() -> None:
    procedure = Procedure(_steps())

    assert procedure.begin() == procedure.effect == "first"
    assert procedure.answer(1) == procedure.effect == "second"
    assert procedure.answer(2) is None
    assert procedure.is_over
    assert procedure.result == [1, 2]


def test_an_error_is_raised_where_the_procedure_waits() -> None:
    procedure = Procedure(_steps())
    procedure.begin()
    error = MetadataUnavailableError("zk", "is away")

    assert procedure.answer(error) == "second"
    procedure.answer(2)
    assert procedure.result == [error, 2]


def test_an_error_that_is_not_expected_ends_it() -> None:
    procedure = Procedure(_steps())
    procedure.begin()

    with pytest.raises(NoSuchLedgerError):
        procedure.answer(NoSuchLedgerError(7))

    assert procedure.is_over
    assert procedure.answer(1) is None


def test_a_stopped_procedure_runs_what_it_has_to_undo() -> None:
    undone: list[str] = []

    def steps() -> Steps[str, None]:
        try:
            yield "locked"
        finally:
            undone.append("unlocked")

    procedure = Procedure(steps())
    procedure.begin()
    procedure.stop()

    assert (undone, procedure.is_over, procedure.effect) == (["unlocked"], True, None)
    assert procedure.answer(1) is None


def test_a_procedure_that_has_nothing_to_ask_is_over_at_once() -> None:
    def steps() -> Steps[str, int]:
        return 7
        yield "never"

    procedure = Procedure(steps())

    assert procedure.begin() is None
    assert procedure.result == 7


def test_an_error_as_a_result_is_not_raised() -> None:
    def steps() -> Steps[str, ZbkError]:
        yield "one"
        return NoSuchLedgerError(3)

    procedure = Procedure(steps())
    procedure.begin()
    procedure.answer(None)

    assert isinstance(procedure.result, NoSuchLedgerError)
