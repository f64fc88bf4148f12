"""Command options from the options of a configuration: flags, help, and the merged values."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from zbk.cli.config_file import config_option, own_security, read_tables
from zbk.cli.logs import log_to_stderr
from zbk.cli.options import metadata_option, option_group
from zbk.cli.parent import stop_with_parent
from zbk.cli.reload import Loaded, reload_on_hangup
from zbk.cli.store import cluster_address
from zbk.config import AutorecoveryConfig, BookieConfig, ConfigType, LogConfig, SecurityConfig
from zbk.config.http_address import OFF
from zbk.config.option import options_of
from zbk.config.running import RunningOptions
from zbk.config.sources import DEFAULT, build, sources_of, table_of, variable_of
from zbk.config.units import GIB, KIB, MIB, unit_of

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
ServerConfigT = TypeVar("ServerConfigT", BookieConfig, AutorecoveryConfig)

LIST_HELP: Final = "May be given several times; in the variable, : separates directories."


def config_options(
    config_type: ConfigType, names: tuple[str, ...] = ()
) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator that adds options of a configuration, ``--config`` and ``--metadata``.

    All options of ``config_type`` are added, or those in ``names``.
    """

    def decorate(command: FunctionT) -> FunctionT:
        for name in reversed(names or config_type.__struct_fields__):
            if name != "metadata":
                command = _option(config_type, name)(command)
        return metadata_option(config_option(command))

    return decorate


directory_options = config_options(BookieConfig, ("journal_dir", "ledger_dir"))
"""The options of commands that work on the directories of a stopped bookie."""


def server_config(config_type: type[ServerConfigT], options: dict[str, Any]) -> ServerConfigT:
    """Build a configuration from flags, environment, file, the running `zbk up` and defaults.

    Raises:
        InvalidOptionError: an option is unknown or out of its range, or no metadata store is given.
    """
    config = offline_config(config_type, options)
    if config.metadata:
        return config
    return offline_config(config_type, options | {"metadata": cluster_address(None)})


def offline_config(config_type: type[ServerConfigT], options: dict[str, Any]) -> ServerConfigT:
    """Build a configuration from flags, environment, file and defaults; each may be missing.

    Raises:
        InvalidOptionError: an option is unknown or out of its range.
    """
    flags = {name: value for name, value in options.items() if name != "config_file"}
    table = read_tables(options["config_file"]).get(table_of(config_type), {})
    return build(config_type, flags=flags, environment=os.environ, table=table)


def option_sources(config_type: type[ServerConfigT], options: dict[str, Any]) -> dict[str, str]:
    """Return where the value of each option of this command comes from, as ``sources_of``."""
    path = options["config_file"]
    found = sources_of(
        config_type,
        flags=[name for name, value in options.items() if value is not None],
        environment=os.environ,
        table=read_tables(path).get(table_of(config_type), {}),
        file_name=str(path),
    )
    if found["metadata"] == DEFAULT:
        found["metadata"] = "zbk up"  # that runs: without an address there is no configuration
    context = click.get_current_context()
    for one in context.command.params:  # click reads the variables of those with one of their own
        name = one.name or ""
        if name in found and context.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
            found[name] = str(one.envvar)
    return found


def autorecovery_sources(options: dict[str, Any]) -> dict[str, str]:
    """Return the same of the options of autorecovery beside a bookie, by names with its table."""
    path = options["config_file"]
    table = table_of(AutorecoveryConfig)
    found = sources_of(
        AutorecoveryConfig,
        environment=os.environ,
        table=read_tables(path).get(table, {}),
        file_name=str(path),
    )
    return {f"{table}.{name}": source for name, source in found.items()}


def server_options(
    config_type: ConfigType, security_names: tuple[str, ...] = ()
) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator that adds the options of a server: configuration, security and log.

    ``security_names`` are the options of ``SecurityConfig`` that the server has.
    """
    return option_group(
        config_options(config_type),
        security_options(*security_names),
        log_options,
        click.option(
            "--stop-with-parent", is_flag=True, hidden=True, help="Stop when stdin closes."
        ),
    )


def security_options(*names: str) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator that adds options of ``SecurityConfig``; ``take_security`` reads them."""
    return option_group(*(_option(SecurityConfig, name) for name in names))


def take_security(options: dict[str, Any]) -> SecurityConfig:
    """Return the key of a server; take its flags out of ``options``, before ``start_server``.

    Raises:
        InvalidOptionError: an option is unknown or out of its range.
    """
    names = SecurityConfig.__struct_fields__
    flags = {name: options.pop(name) for name in names if name in options}
    return own_security(options["config_file"], flags)


def start_server(
    config_type: type[ServerConfigT], options: dict[str, Any]
) -> RunningOptions[ServerConfigT]:
    """Start the log of a server, and watch its parent if wanted; return its options.

    From now on SIGHUP makes the process re-read the configuration.

    ``options`` are the values of ``server_options``, and are left with those of the configuration.

    Raises:
        InvalidOptionError: an option is unknown or out of its range, or no metadata store is given.
    """
    (running,) = _start(options, lambda: (server_config(config_type, options),))
    return running


def start_bookie(
    options: dict[str, Any], *, has_autorecovery: bool
) -> tuple[RunningOptions[BookieConfig], RunningOptions[AutorecoveryConfig] | None]:
    """Start as ``start_server``; return the options of a bookie, and of autorecovery beside it.

    Raises:
        InvalidOptionError: an option is unknown or out of its range, or no metadata store is given.
    """
    if not has_autorecovery:
        return start_server(BookieConfig, options), None

    def load() -> tuple[BookieConfig, AutorecoveryConfig]:
        config = server_config(BookieConfig, options)
        own = {"metadata": config.metadata, "http": OFF}  # the bookie serves its metrics
        return config, offline_config(
            AutorecoveryConfig, own | {"config_file": options["config_file"]}
        )

    running, beside = _start(options, load)
    return running, beside


def _start(
    options: dict[str, Any], load_parts: Callable[[], tuple[BookieConfig | AutorecoveryConfig, ...]]
) -> list[RunningOptions[Any]]:
    log_flags = {name: options.pop(f"log_{name}") for name in ("format", "level")}
    is_parent_watched = options.pop("stop_with_parent")

    def load() -> Loaded:
        log = _log_config(log_flags, read_tables(options["config_file"]))
        return Loaded(log, load_parts())

    loaded = load()
    log_to_stderr(loaded.log.format, loaded.log.level)
    running: list[RunningOptions[Any]] = [RunningOptions(one) for one in loaded.parts]
    reload_on_hangup(loaded, load, running)
    if is_parent_watched:
        stop_with_parent()
    return running


def start_log(flags: Mapping[str, str | None], tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Start the log of a process; ``flags`` are the values of ``log_options``, by short names.

    Raises:
        InvalidOptionError: the table [log] has an unknown option or a value out of its range.
    """
    log = _log_config(flags, tables)
    log_to_stderr(log.format, log.level)


def log_options(command: FunctionT) -> FunctionT:
    """Add the options of the log, ``log_level`` and ``log_format``, to a command."""
    for name, choices in (
        ("level", ["debug", "info", "warning", "error"]),
        ("format", ["text", "console", "json"]),
    ):
        command = click.option(
            f"--log-{name}",
            type=click.Choice(choices),
            envvar=variable_of(LogConfig, name),
            show_envvar=True,
            help=f"{options_of(LogConfig)[name].help}  [default: {getattr(LogConfig(), name)}]",
        )(command)
    return command


def value_text(name: str, value: float | str | tuple[str, ...]) -> str:
    """Return the value of an option as a user types it: ``64 MiB``, ``10s``."""
    if isinstance(value, tuple):
        return ":".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    units: Mapping[str, int] = {"": 1}
    match unit_of(name):
        case "SIZE":
            units = {" GiB": GIB, " MiB": MIB, " KiB": KIB, "": 1}
        case "DURATION":
            units = {"s": 1_000, "ms": 1}
    for unit, factor in units.items():
        if isinstance(value, int) and value % factor == 0:
            return f"{value // factor}{unit}"
    return str(value)


# ------------------------------------------------------------------ private


def _log_config(
    flags: Mapping[str, str | None], tables: Mapping[str, Mapping[str, Any]]
) -> LogConfig:
    environment: dict[str, str] = {}  # click reads the variables
    return build(LogConfig, flags=flags, environment=environment, table=tables.get("log", {}))


def _option(config_type: ConfigType, name: str) -> Callable[[FunctionT], FunctionT]:
    option, default = options_of(config_type)[name], getattr(config_type(), name)
    flag = f"--{name.replace('_', '-')}"
    shown = value_text(name, default)
    if isinstance(default, bool):
        return click.option(
            f"{flag}/--no-{flag[2:]}",
            name,
            default=None,
            help=f"{option.help}  [env var: {variable_of(config_type, name)}]",
        )
    source = f"[env var: {variable_of(config_type, name)}{f'; default: {shown}' if shown else ''}]"
    if option.unit_of(name) == "DIR":
        return click.option(
            flag,
            name,
            metavar="DIR",
            multiple=True,
            callback=lambda _context, _option, paths: _one_or_several(paths),
            help=f"{option.help} {LIST_HELP}  {source}",
        )
    return click.option(flag, name, metavar=option.unit_of(name), help=f"{option.help}  {source}")


def _one_or_several(paths: tuple[str, ...]) -> str | tuple[str, ...] | None:
    return paths if len(paths) > 1 else next(iter(paths), None)
