"""What the user sees when something fails: one line, and an exit code that says which kind."""

import os
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


# ------------------------------------------------------------------ standard streams


def run_in_shell(command: str, home: Path) -> "subprocess.CompletedProcess[str]":
    """Run `zbk` with the arguments and redirections of a shell command line."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m zbk {command}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("ZBK_")},
            "XDG_CONFIG_HOME": str(home),
        },
    )


@pytest.mark.parametrize(
    "command", ["--help", "--version", "bookie run --help", "config show", "config default -o json"]
)
@pytest.mark.parametrize("is_buffered", [False, True])
def test_an_output_that_takes_nothing_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, *, is_buffered: bool
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    if not is_buffered:
        monkeypatch.setenv("PYTHONUNBUFFERED", "1")

    done = run_in_shell(f"{command} >/dev/full", tmp_path)

    assert done.stderr == "zbk: [Errno 28] No space left on device: 'standard output'\n"
    assert done.returncode == 1


@pytest.mark.parametrize("command", ["--help", "--version", "config show", "config default"])
def test_a_closed_output_is_one_line_too(tmp_path: Path, command: str) -> None:
    done = run_in_shell(f"{command} >&-", tmp_path)

    closed = "zbk: [Errno 9] it is closed; redirect it to /dev/null: 'standard output'\n"
    assert (done.returncode, done.stderr) == (1, closed)


def test_a_command_that_prints_nothing_does_not_notice_a_closed_output(tmp_path: Path) -> None:
    (tmp_path / "zbk.toml").write_text("")
    done = run_in_shell(f"ledger ls --metadata sqlite://{tmp_path}/none.db >&-", tmp_path)

    assert done.returncode == 1
    assert "none.db" in done.stderr
    assert "standard output" not in done.stderr


def test_a_closed_error_output_changes_no_exit_code(tmp_path: Path) -> None:
    assert run_in_shell("config show 2>&-", tmp_path).returncode == 0
    assert run_in_shell("ledger ls 2>&-", tmp_path).returncode == 1


@pytest.mark.parametrize("command", ["ledger append", "log append orders"])
def test_a_closed_input_is_a_mistake_of_use(tmp_path: Path, command: str) -> None:
    done = run_in_shell(f"{command} <&-", tmp_path)

    assert done.returncode == 2
    assert "Standard input is closed: give a FILE." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["ledger delete 0", "log delete x", "log truncate x 0:0"])
def test_a_closed_input_answers_no_question(tmp_path: Path, command: str) -> None:
    done = run_in_shell(f"{command} <&-", tmp_path)

    assert done.returncode == 2
    assert "give --yes" in done.stderr


def test_a_closed_descriptor_is_not_taken_by_the_next_file() -> None:
    program = (
        "import os\n"
        "from zbk.cli.streams import open_streams\n"
        "for descriptor in range(3):\n"
        "    os.close(descriptor)\n"
        "open_streams()\n"
        "assert os.open(os.devnull, os.O_RDONLY) > 2\n"
        "assert [os.fstat(n).st_rdev for n in range(3)] == [os.stat(os.devnull).st_rdev] * 3\n"
        "assert all(map(os.get_inheritable, range(3)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=Path(__file__).parents[3]
    )

    assert done.returncode == 0


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("ledger", "show", "abc"), "'abc' is not a valid integer."),
        (("up", "--bookies", "many"), "'many' is not a valid integer."),
        (("bench", "write", "--rate", "fast"), "'fast' is not a valid number."),
    ],
)
def test_a_value_of_another_kind_is_named_plainly(
    run: Run, command: tuple[str, ...], text: str
) -> None:
    result = run(*command)

    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("up --data d", 1, "the current folder was removed: change to another one"),
        (
            "bookie init --journal-dir j --ledger-dir l",
            6,
            "cannot use j: the current folder was removed",
        ),
    ],
)
def test_a_folder_that_was_removed_is_named(
    tmp_path: Path, command: str, code: int, text: str
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    metadata = f"ZBK_METADATA=sqlite://{tmp_path}/metadata.db"

    done = subprocess.run(
        ["/bin/sh", "-c", f'cd gone && rmdir ../gone && {metadata} exec "$0" {command}',
         str(Path(sys.executable).with_name("zbk"))],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (code, f"zbk: {text}\n")
