"""Click commands as zbk has them: examples in the help, groups that import late.

Why late: ``zbk --help`` must not pay for pykka, ZeroMQ, msgspec and the rest. A command's one line
in the list of its group is written beside its address, so that listing imports nothing; a test
compares it with the command's own help.
"""

import difflib
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import click

Sections = Mapping[str, Sequence[tuple[str, str]]]
"""Parts of a help page behind its text: a heading, and its rows of two columns each."""


_PLAIN_NAMES: Mapping[type, str] = {
    click.IntRange: "integer",
    click.FloatRange: "number",
}
"""What errors call a value of these types; click says "'abc' is not a valid integer range"."""


class ZbkCommand(click.Command):
    """A command whose help ends with examples: command lines, and what they do."""

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
        """Write the text, then the examples: what most readers look for stands before options."""
        super().format_help_text(ctx, formatter)
        _write_sections(formatter, {"Examples": self.examples})


class LazyCommand(NamedTuple):
    """Where a command lives, and its line in the list."""

    address: str  # module:attribute
    help_line: str


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

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
        """Return the names, in the order in which they were declared."""
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; ``None`` if there is none of this name."""
        del ctx
        found = self.lazy.get(cmd_name)
        if found is None:
            return None
        module, _, attribute = found.address.partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names, or say what it may have meant."""
        name = args[0]
        if name not in self.lazy and not name.startswith("-"):
            close = difflib.get_close_matches(name, self.lazy, n=2)
            known = f"Known: {', '.join(self.lazy)}."
            hint = f"Did you mean {' or '.join(close)}?" if close else known
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text, then the examples, if there are any."""
        super().format_help_text(ctx, formatter)
        if self.examples:
            _write_sections(formatter, {"Examples": self.examples})

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections that come last."""
        super().format_epilog(ctx, formatter)
        _write_sections(formatter, self.sections)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, found.help_line) for name, found in self.lazy.items()])


def _write_sections(formatter: click.HelpFormatter, sections: Sections) -> None:
    for heading, rows in sections.items():
        with formatter.section(heading):
            formatter.write_dl(list(rows), col_max=46)
