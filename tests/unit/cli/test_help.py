"""Every page of help: there, true, short, and quick."""

import re
import resource
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner, Result

from zbk.cli.command import LazyGroup, ZbkCommand
from zbk.cli.main import cli

Found = tuple[str, click.Command, str]


def commands(group: click.Group, prefix: str = "zbk") -> Iterator[Found]:
    """Yield the full name, the command, and its line in its group's list."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        line = (
            group.lazy[name].help_line
            if isinstance(group, LazyGroup)
            else command.get_short_help_str(200)
        )
        yield f"{prefix} {name}", command, line
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")


ALL = list(commands(cli))
NAMED = [(name, command) for name, command, _ in ALL]


def show_help(name: str) -> Result:
    return CliRunner().invoke(cli, [*name.split()[1:], "--help"])


@pytest.mark.parametrize(
    ("command", "line"), [found[1:] for found in ALL], ids=[found[0] for found in ALL]
)
def test_a_command_is_listed_with_the_first_sentence_of_its_help(
    command: click.Command, line: str
) -> None:
    help_text = " ".join((command.help or "").split("\n\n")[0].split())

    assert line == help_text


@pytest.mark.parametrize(("name", "command"), NAMED, ids=[found[0] for found in ALL])
def test_help_has_examples_that_begin_with_zbk(name: str, command: click.Command) -> None:
    output = show_help(name).output
    body = output.partition("\n")[2]  # without the line of usage
    assert "zbk " in body, name
    if isinstance(command, ZbkCommand):
        assert 1 <= len(command.examples) <= 4
    assert max(map(len, output.splitlines())) <= 100


@pytest.mark.parametrize(("name", "command"), NAMED, ids=[found[0] for found in ALL])
def test_every_option_says_what_it_does(name: str, command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(["ledgr"], "ledger"), (["ledger", "crate"], "create"), (["bookie", "lst"], "ls")],
)
def test_a_misspelt_command_names_the_one_that_was_meant(arguments: list[str], meant: str) -> None:
    result = CliRunner().invoke(cli, arguments)

    assert result.exit_code == 2
    assert f"Did you mean {meant}" in result.stderr


def test_an_unlike_command_lists_the_known_ones() -> None:
    result = CliRunner().invoke(cli, ["xyzzy"])

    assert result.exit_code == 2
    assert "Known: demo, up, ledger" in result.stderr


def test_the_exit_codes_are_in_the_help() -> None:
    output = show_help("zbk").output

    for code in ("0", "1", "2", "3", "4", "5", "6", "130"):
        assert re.search(rf"^  {code} +\w", output, re.MULTILINE), code


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from zbk.cli.main import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    modules = set(done.stderr.split())

    heavy = {"zmq", "pykka", "kazoo", "msgpack", "msgspec", "rich", "xxhash", "sqlite3", "asyncio"}
    assert modules & heavy == set()
    ours = {name for name in modules if name.startswith("zbk")}
    assert ours == {
        "zbk", "zbk.cli", "zbk.cli.command", "zbk.cli.main", "zbk.cli.session", "zbk.errors",
        "zbk.cli.streams", "zbk.system", "zbk.system.memory", "zbk.version",
    }  # fmt: skip


def test_help_costs_little_more_than_the_library_that_prints_it() -> None:
    """In CPU time, the best of several runs, and beside each other: a loaded machine is slow."""
    costs_s = [
        (_cpu_time_s("-m", "zbk", "--help"), _cpu_time_s("-c", "import click")) for _ in range(5)
    ]
    help_s, click_s = (min(column) for column in zip(*costs_s, strict=True))

    assert help_s < 3 * click_s


def _cpu_time_s(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
