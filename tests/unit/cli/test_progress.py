"""What a terminal shows where lines are printed beside a spinner or a bar."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import click
from zbk.cli.copy_progress import copying
from zbk.cli.output import note
from zbk.cli.progress import saying, telling
from zbk.cli.streams import open_streams

open_streams()
with {display} as tell:
    click.echo("one")
    {update}
    note("zbk: a note")
    click.echo("two")
    {update}
    click.echo("three")
click.echo("four")
"""
DISPLAYS = {
    "telling()": 'tell("written", 1_000)',
    "saying()": 'tell("starting Spark")',
    'copying("ledger 7", 10)': "tell.copied(5, 500)",
}
TOKEN = re.compile(r"\x1b\[([0-9?;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


def screen(output: str) -> list[str]:
    """Return the lines that a terminal of any width shows, without their trailing blanks."""
    rows, row, column = [""], 0, 0
    for number, command, control, text in TOKEN.findall(output):
        if text:
            line = rows[row].ljust(column)
            rows[row] = line[:column] + text + line[column + len(text) :]
            column += len(text)
        elif control == "\r":
            column = 0
        elif control == "\n":
            row, column = row + 1, 0  # the terminal driver adds the carriage return
            rows += [""] * (row + 1 - len(rows))
        elif command == "A":
            row = max(0, row - int(number or 1))
        elif command == "K":
            assert number == "2", "rich erases whole lines"
            rows[row] = ""
    return [line.rstrip() for line in rows]


def run_in_terminal(program: str, *, is_piped: bool) -> tuple[str, str]:
    """Return what a terminal got, and what a pipe in place of standard output did."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=theirs,
        stdout=subprocess.PIPE if is_piped else theirs,
        stderr=theirs,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"},
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:  # Linux's way to say that all who had it open have closed it
            break
        if not data:
            break
        parts.append(data)
    os.close(ours)
    piped = process.stdout.read().decode() if process.stdout is not None else ""
    if process.stdout is not None:
        process.stdout.close()
    assert process.wait(30) == 0, b"".join(parts)
    return b"".join(parts).decode(), piped


@pytest.mark.parametrize("display", DISPLAYS)
def test_lines_and_progress_never_share_a_line_of_the_terminal(display: str) -> None:
    program = PROGRAM.format(display=display, update=DISPLAYS[display])

    shown, _ = run_in_terminal(program, is_piped=False)

    lines = [line for line in screen(shown) if line]
    assert lines == ["one", "zbk: a note", "two", "three", "four"]


@pytest.mark.parametrize("display", DISPLAYS)
def test_a_pipe_gets_the_lines_and_nothing_else(display: str) -> None:
    program = PROGRAM.format(display=display, update=DISPLAYS[display])

    shown, piped = run_in_terminal(program, is_piped=True)

    assert piped == "one\ntwo\nthree\nfour\n"
    assert [line for line in screen(shown) if line] == ["zbk: a note"]
