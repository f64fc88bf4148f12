"""``zbk config``: the values in use and their sources, checks, and a file of all defaults."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from zbk.cli.command import command, commands_of, group
from zbk.cli.config_file import config_option, read_tables, read_text
from zbk.cli.config_options import value_text
from zbk.cli.options import output_option
from zbk.cli.output import Format, print_json, print_object, print_rows
from zbk.config import SECTIONS
from zbk.config.option import options_of
from zbk.config.sources import convert, options_in_use, parse_toml, unknown_tables
from zbk.errors import InvalidOptionError


@command(
    "show",
    ("zbk config show --config /etc/zbk/zbk.toml --sources", "with the source of each value"),
    ("zbk config show -o json", "sizes in bytes, durations in the unit of the name"),
)
@config_option
@click.option("--sources", is_flag=True, help="Show the source of each value.")
@output_option
def show(config_file: Path | None, sources: bool, output: Format) -> None:
    """Show the values that commands and servers use.

    From the environment, the file and the defaults, in this order; flags of a command override
    them.
    """
    columns = ["section", "option", "value", *(["source"] if sources else [])]
    rows = (
        row if sources else {name: row[name] for name in columns}
        for row in _rows(config_file, is_typed=output == "table")
    )
    if output == "json":
        for row in rows:
            print_json(row)
    else:
        print_rows(rows, columns, output)


@command("check", ("zbk config check /etc/zbk/zbk.toml", "before a restart"))
@click.argument(
    "file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@output_option
def check(file: Path, output: Format) -> None:
    """Check a configuration file.

    Checks its tables, the names of its options, and the kinds and ranges of their values, but not
    the environment. The exit code is 1 if anything is wrong; each wrong table and option is
    reported.
    """
    tables = parse_toml(str(file), read_text(file))
    wrong = [f"zbk: {error}" for error in unknown_tables(str(file), tables)]
    wrong += [
        f"zbk: {file}: [{section}] {error}"
        for section, table in tables.items()
        if section in SECTIONS and isinstance(table, dict)
        for error in _problems(SECTIONS[section], table)
    ]
    if wrong:
        click.echo("\n".join(wrong), err=True)
        click.get_current_context().exit(1)
    count = sum(map(len, tables.values()))
    print_object({"file": str(file), "tables": list(tables), "option_count": count}, output)


def _problems(config_type: type[Any], table: Mapping[str, Any]) -> Iterator[InvalidOptionError]:
    """Yield the errors of each option by itself; if there are none, those of all together."""
    is_each_right = True
    for name, value in table.items():
        try:
            convert(config_type, {name: value})
        except InvalidOptionError as error:
            is_each_right = False
            yield error
    if is_each_right:
        try:
            convert(config_type, table)
        except InvalidOptionError as error:
            yield error


@command(
    "default", ("zbk config default > zbk.toml", "then remove the # before an option to change it")
)
@output_option
def default(output: Format) -> None:
    """Print a configuration file with every option and its default."""
    if output == "json":
        for section, name, text, value in _defaults():
            print_json({"section": section, "option": name, "default": value, "help": text})
        return
    click.echo("# Options of zbk. Each is at its default: remove the # to change it.")
    click.echo('# Sizes are bytes, or texts like "64 MiB"; durations milliseconds, or "2s".')
    last_section = ""
    for section, name, text, value in _defaults():
        if section != last_section:
            click.echo(f"\n[{section}]")
            last_section = section
        shown = value_text(name, value)
        is_number = shown.replace(".", "", 1).isdecimal()
        click.echo(f"# {text}")
        click.echo(f"#{name} = {shown if is_number else json.dumps(shown)}")


@group(
    "config",
    commands_of(
        "zbk.cli.config",
        {
            "show": ("command:show", "Show the values that commands and servers use."),
            "check": ("command:check", "Check a configuration file."),
            "default": (
                "command:default",
                "Print a configuration file with every option and its default.",
            ),
        },
    ),
    ("zbk config default > zbk.toml", "a file to start with"),
    ("zbk config show --config zbk.toml --sources", "the values in use, and their sources"),
)
def config() -> None:
    """Show, check and create configuration files.

    A process has one TOML file, with tables [bookie], [client], [autorecovery] and [log]. A flag
    overrides ZBK_... in the environment, which overrides the file, which overrides the default.
    """


# ------------------------------------------------------------------ private


def _defaults() -> Iterator[tuple[str, str, str, Any]]:
    """Yield table, name, help and default of each option, in the order of the file."""
    for section, config_type in SECTIONS.items():
        defaults = config_type()
        for name, option in options_of(config_type).items():
            several = " Several: a list." if option.unit_of(name) == "DIR" else ""
            yield section, name, option.help + several, getattr(defaults, name)


def _rows(path: Path | None, *, is_typed: bool) -> Iterator[dict[str, Any]]:
    for one in options_in_use(read_tables(path), os.environ, str(path)):
        yield {
            "section": one.section,
            "option": one.name,
            "value": value_text(one.name, one.value) if is_typed else one.value,
            "source": one.source,
        }
