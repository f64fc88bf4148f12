"""Click commands for zbk: examples in the help, groups that import their commands late.

``zbk --help`` must not load pykka, ZeroMQ, msgspec and the rest. Each group therefore has the help
line of a command beside its address, so listing imports nothing; a test compares the line with the
command's own help.
"""

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import click

Example = tuple[str, str]
"""A command line, and what it does."""

Sections = Mapping[str, Sequence[tuple[str, str]]]
"""Parts of a help page after its text: a heading, and its rows of two columns each."""


_PLAIN_NAMES: Mapping[type, str] = {
    click.IntRange: "integer",
    click.FloatRange: "number",
}
"""Names of these types in errors; click says "'abc' is not a valid integer range"."""


class ZbkCommand(click.Command):
    """A command whose help has examples: command lines, and what they do."""

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        examples: Sequence[tuple[str, str]],
        **kwargs: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        for parameter in self.params:
            name = _PLAIN_NAMES.get(type(parameter.type))
            if name is not None:
                parameter.type.name = name

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text, then the examples, before the options."""
        super().format_help_text(ctx, formatter)
        _write_sections(formatter, {"Examples": self.examples})


class LazyCommand(NamedTuple):
    """The address of a command, and its line in the list."""

    address: str  # module:attribute
    help_line: str


class LazyGroup(click.Group):
    """A group that imports a command when it is used."""

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        lazy: Mapping[str, LazyCommand],
        examples: Sequence[tuple[str, str]] = (),
        sections: Sections | None = None,
        **kwargs: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy)
        self.examples = examples
        self.sections = sections or {}  # at the end of the help

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of their declaration."""
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; return ``None`` if there is none of this name."""
        del ctx
        found = self.lazy.get(cmd_name)
        if found is None:
            return None
        module, _, attribute = found.address.partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names, or suggest a similar name."""
        name = args[0]
        if name not in self.lazy and not name.startswith("-"):
            close = difflib.get_close_matches(name, self.lazy, n=2)
            known = f"Known: {', '.join(self.lazy)}."
            hint = f"Did you mean {' or '.join(close)}?" if close else known
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text, then the examples if there are any."""
        super().format_help_text(ctx, formatter)
        if self.examples:
            _write_sections(formatter, {"Examples": self.examples})

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the last sections."""
        super().format_epilog(ctx, formatter)
        _write_sections(formatter, self.sections)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, found.help_line) for name, found in self.lazy.items()])


def _write_sections(formatter: click.HelpFormatter, sections: Sections) -> None:
    for heading, rows in sections.items():
        with formatter.section(heading):
            formatter.write_dl(list(rows), col_max=46)


def command(name: str, *examples: Example) -> Callable[[Callable[..., Any]], ZbkCommand]:
    """Return a decorator that makes a function a command with these examples."""
    return click.command(name, cls=ZbkCommand, examples=examples)


def group(
    name: str, commands: Mapping[str, LazyCommand], *examples: Example
) -> Callable[[Callable[..., Any]], LazyGroup]:
    """Return a decorator that makes a function a group of commands, imported when they are used."""
    return click.group(name, cls=LazyGroup, lazy=commands, examples=examples)


def commands_of(package: str, commands: Mapping[str, tuple[str, str]]) -> dict[str, LazyCommand]:
    """Return the commands of a package: by name, ``module:attribute`` below it, and a help line."""
    return {
        name: LazyCommand(f"{package}.{place}", line) for name, (place, line) in commands.items()
    }
