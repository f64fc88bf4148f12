"""The configuration file of a command: ``--config FILE``, or ``$ZBK_CONFIG``."""

import os
from pathlib import Path
from typing import Any, Final

import click

from zbk.config import ClientConfig
from zbk.config.sources import convert, given_values, read_toml

CONFIG_VARIABLE: Final = "ZBK_CONFIG"

config_option = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    envvar=CONFIG_VARIABLE,
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with tables [bookie], [client], [log]; flags and environment override it.",
)


def read_tables(path: Path | None) -> dict[str, dict[str, Any]]:
    """Return the tables of a configuration file; none if ``path`` is ``None``.

    Raises:
        InvalidOptionError: not TOML, or a key outside of a known table.
        OSError: the file cannot be read.
    """
    if path is None:
        return {}
    return read_toml(str(path), read_text(path))


def read_text(path: Path) -> str:
    """Return the text of a configuration file; bytes that are not UTF-8 become U+FFFD.

    Raises:
        OSError: the file cannot be read.
    """
    return path.read_text("utf-8", errors="replace")


def client_options() -> dict[str, Any]:
    """Return the options of ``zbk.connect`` from the environment and the file.

    Raises:
        InvalidOptionError: an option is unknown or out of its range.
        OSError: the file in ``$ZBK_CONFIG`` cannot be read.
    """
    path = os.environ.get(CONFIG_VARIABLE)
    table = read_tables(Path(path) if path else None).get("client", {})
    given = given_values(ClientConfig, environment=os.environ, table=table)
    convert(ClientConfig, given)  # refuses wrong values before anything is opened
    return given
