"""The configuration file of a command: ``--config FILE``, or ``$ZBK_CONFIG``."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from zbk.config import ClientConfig, SecurityConfig
from zbk.config.sources import CONFIG_VARIABLE, build, convert, given_values, read_toml
from zbk.system.core_dumps import forbid_core_dumps

KEY_META: Final = "zbk.key"
"""The value of ``--key`` of the running command, in click's ``meta``."""


def _use_config(context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    """Use the file that is given for the user at the metadata store, too."""
    from zbk.metadata.stores.access import use_config_file

    use_config_file(str(path or ""))
    context.call_on_close(lambda: use_config_file(""))
    return path


config_option = click.option(
    "--config",
    "config_file",
    callback=_use_config,
    metavar="FILE",
    envvar=CONFIG_VARIABLE,
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with tables [bookie], [client], [log] and others; flags and environment "
    "override it.",
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
    """Return the options of ``zbk.connect`` from ``--key``, the environment and the file.

    Raises:
        InvalidOptionError: an option is unknown or out of its range.
        OSError: the file in ``$ZBK_CONFIG`` cannot be read.
    """
    path = _default_path()
    table = read_tables(path).get("client", {})
    given = given_values(ClientConfig, environment=os.environ, table=table)
    own = own_security(path)
    if own.key and (_key_flag() or "key" not in given):
        given["key"] = own.key
    if own.security != "auto":
        given.setdefault("security", own.security)
    convert(ClientConfig, given)  # refuses wrong values before anything is opened
    return given


def own_security(
    path: Path | None = None, flags: Mapping[str, Any] | None = None
) -> SecurityConfig:
    """Return the key of this process from flags, ``--key``, the environment and a file.

    The file is ``path``, else the one in ``$ZBK_CONFIG``. A process with a key leaves no core dump
    from now on.

    Raises:
        InvalidOptionError: an option is unknown or out of its range.
        OSError: the file cannot be read.
    """
    table = read_tables(path or _default_path()).get("security", {})
    given = {"key": _key_flag()} | dict(flags or {})
    found = build(SecurityConfig, flags=given, environment=os.environ, table=table)
    if found.key or found.metadata_password_file:
        forbid_core_dumps()
    return found


def _default_path() -> Path | None:
    path = os.environ.get(CONFIG_VARIABLE)
    return Path(path) if path else None


def _key_flag() -> str | None:
    context = click.get_current_context(silent=True)
    found: str | None = None if context is None else context.meta.get(KEY_META)
    return found
