"""The sections of commands, made from the commands themselves."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click

from docs.generator.text import code, page, table
from zbk.cli.main import cli


def commands() -> str:
    """Return a section for each command."""
    parts = [part for command, ctx in walk(cli, None, "zbk") for part in _section(command, ctx)]
    return page(*parts[1:])


def walk(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield a command and those in it, each with its context."""
    ctx = click.Context(command, parent=parent, info_name=name, help_option_names=["-h", "--help"])
    yield command, ctx
    if isinstance(command, click.Group):
        for child_name in command.list_commands(ctx):
            child = command.get_command(ctx, child_name)
            assert child is not None
            yield from walk(child, ctx, child_name)


def _section(command: click.Command, ctx: click.Context) -> Iterator[str]:
    path = ctx.command_path
    depth = 2 if len(path.split()) <= 2 else 3
    yield f"{'#' * depth} {path} {{ #{path.replace(' ', '-')} }}"
    yield _prose(inspect.cleandoc(command.help or ""))
    if isinstance(command, click.Group):
        if parameters := [one for one in _options(command, ctx) if "--help" not in one[0]]:
            yield table(["option", "meaning"], parameters)
        examples = _pairs(command)
        if examples:
            yield code(_columns(examples))
        for heading, rows in getattr(command, "sections", {}).items():
            yield f"**{heading}**"
            yield table(["", ""], [(f"`{one}`", _prose(text)) for one, text in rows])
        return
    yield code(f"{path} {' '.join(command.collect_usage_pieces(ctx))}")
    if examples := _pairs(command):
        yield code(_columns(examples))
    if options := [one for one in _options(command, ctx) if "--help" not in one[0]]:
        yield table(["option", "meaning"], options)


def _pairs(command: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - a group or a command of ours
    return list(getattr(command, "examples", ()))


def _options(command: click.Command, ctx: click.Context) -> list[tuple[str, str]]:
    records = [one.get_help_record(ctx) for one in command.get_params(ctx)]
    return [(f"`{record[0]}`", _prose(record[1])) for record in records if record is not None]


def _columns(examples: list[tuple[str, str]]) -> str:
    width = max(len(line) for line, _ in examples)
    return "\n".join(f"{line:{width}}   # {text}" for line, text in examples)


def _prose(text: str) -> str:
    r"""Return text with its special characters escaped, except inside `literals`.

    >>> _prose("`zbk up` <DIR> *")
    '`zbk up` &lt;DIR&gt; \\*'
    """
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else _escaped(piece) for piece in pieces)


def _escaped(text: str) -> str:
    text = text.replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([*_\[\]])", r"\\\1", text)
