"""What the user sees when something fails: one line, and an exit code that says which kind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Run
from tests.support.fake_client import FakeClient
from zbk.errors import (
    ERROR_BY_CODE,
    BookieUnavailableError,
    CallerError,
    CannotAdvanceError,
    CookieMismatchError,
    DamageError,
    DigestMismatchError,
    InvalidOptionError,
    LedgerFencedError,
    LostHistoryError,
    MetadataUnavailableError,
    NotDurableError,
    UnavailableError,
    ZbkError,
    exit_code_of,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidOptionError("metadata", "x", "is none"), 1),
        (MetadataUnavailableError("zk://h", "timed out"), 3),
        (BookieUnavailableError("b", "gone"), 3),
        (DigestMismatchError(7, 8), 4),
        (LedgerFencedError(7), 5),
        (NotDurableError(7, 8, 9), 5),
        (CannotAdvanceError(7, 8, 9, "too few answer"), 5),
        (CookieMismatchError("another bookie's"), 6),
        (LostHistoryError("b-1", "incarnation 3", "/l has none", "restore it"), 7),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    run: Run, client: FakeClient, error: ZbkError, code: int
) -> None:
    client.failure = error

    result = run("ledger", "show", "7")

    assert result.exit_code == code
    assert result.stderr == f"zbk: {error}\n"
    assert result.stdout == ""


def test_every_error_has_an_exit_code_that_fits_its_branch() -> None:
    for error_type in ERROR_BY_CODE.values():
        error = error_type.__new__(error_type)
        code = exit_code_of(type(error))
        assert 1 <= code <= 7
        assert (code == 7) == isinstance(error, LostHistoryError)
        assert (code == 1) == isinstance(error, CallerError)
        assert (code == 4) == isinstance(error, DamageError)
        if isinstance(error, UnavailableError) and not isinstance(error, CannotAdvanceError):
            assert code == 3


def test_notes_of_an_error_are_shown(run: Run, client: FakeClient) -> None:
    error = LedgerFencedError(7)
    error.add_note("closing it failed too")
    client.failure = error

    assert run("ledger", "show", "7").stderr.splitlines()[1:] == ["zbk: closing it failed too"]


def test_a_traceback_is_shown_on_demand_only(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.failure = LedgerFencedError(7)
    monkeypatch.setenv("ZBK_DEBUG", "1")

    result = run("ledger", "show", "7")

    assert "Traceback" in result.stderr
    assert result.stderr.endswith(f"zbk: {client.failure}\n")
    assert result.exit_code == 5


def test_ctrl_c_ends_with_130(run: Run, client: FakeClient) -> None:
    client.failure = KeyboardInterrupt()

    result = run("ledger", "show", "7")

    assert (result.exit_code, result.stderr) == (130, "zbk: interrupted\n")


def test_a_missing_file_is_one_line(run: Run) -> None:
    result = run("ledger", "append", "no-such-file")

    assert result.exit_code == 1
    assert result.stderr == "zbk: [Errno 2] No such file or directory: 'no-such-file'\n"


def test_a_closed_pipe_ends_quietly() -> None:
    """`zbk ledger cat 0 | head -1`: nobody reads the rest, and that is no error."""
    program = (
        "from tests.support.fake_client import FakeClient\n"
        "from zbk.cli.main import cli\n"
        "from zbk.cli.session import Session\n"
        "client = FakeClient()\n"
        "client.add_ledger([b'x' * 100_000] * 50)\n"
        "cli(['ledger', 'cat', '0'], obj=Session(lambda _: client))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1) == b"x"
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()

    assert (process.wait(20), errors) == (0, b"")
