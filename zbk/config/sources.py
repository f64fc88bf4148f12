"""Sources of option values: command-line flag, environment, file, default; the first wins.

The file is the TOML file given with ``--config`` or in ``ZBK_CONFIG``. The environment has one
variable ``ZBK_<TABLE>_<OPTION>`` for each option, and ``ZBK_<OPTION>`` for those of ``[security]``.
Unknown keys are errors.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from zbk import conversion
from zbk.config import SECTIONS, Config, SecurityConfig
from zbk.config.option import type_of
from zbk.config.units import parse_duration_ms, parse_size, unit_of
from zbk.errors import InvalidOptionError

ConfigT = TypeVar("ConfigT", bound=Config)

CONFIG_VARIABLE: Final = "ZBK_CONFIG"
"""The environment variable with the path of the configuration file."""

HIDDEN: Final = "..."
"""Replaces the value of an unknown option in error texts: it may be a password."""

DEFAULT: Final = "default"
COMMAND_LINE: Final = "command line"
"""Sources of values that are neither a variable nor a file."""

_TRUTHS: Final = {"true": True, "false": False, "1": True, "0": False}


def read_toml(path: str, text: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a configuration file; ``text`` is its text.

    Raises:
        InvalidOptionError: not TOML, or a key outside of a known table.
    """
    tables = parse_toml(path, text)
    for error in unknown_tables(path, tables):
        raise error
    return tables


def parse_toml(path: str, text: str) -> dict[str, Any]:
    """Return the content of a configuration file; ``text`` is its text.

    Raises:
        InvalidOptionError: not TOML.
    """
    import tomllib  # noqa: PLC0415 - a client without a file does not need it

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOptionError("config", path, f"is not TOML: {error}") from error
    return tables


def unknown_tables(path: str, tables: Mapping[str, Any]) -> Iterator[InvalidOptionError]:
    """Yield an error for each unknown table, and for each key outside of a table."""
    for name, table in tables.items():
        if name not in SECTIONS or not isinstance(table, dict):
            close = difflib.get_close_matches(name, SECTIONS, n=1)
            meant = f"; did you mean [{close[0]}]?" if close else ""
            known = ", ".join(f"[{one}]" for one in SECTIONS)
            yield InvalidOptionError(
                "config", path, f"unknown table or key {name!r}{meant}; known: {known}"
            )


def build(
    config_type: type[ConfigT],
    *,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    table: Mapping[str, Any],
) -> ConfigT:
    """Merge the sources of one configuration, first wins: flags, environment, table, defaults.

    A flag that is ``None`` was not given.

    Raises:
        InvalidOptionError: an unknown key, or a value out of its range.
    """
    given = given_values(config_type, environment=environment, table=table)
    return convert(config_type, given | {k: v for k, v in flags.items() if v is not None})


def given_values(
    config_type: type[ConfigT], *, environment: Mapping[str, str], table: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values in environment and table, the environment first; not converted.

    Raises:
        InvalidOptionError: an unknown key in the table.
    """
    known = config_type.__struct_fields__
    for key in table:
        if key not in known:
            raise InvalidOptionError(key, HIDDEN, f"unknown option{_suggestion(key, known)}")
    names = {key: variable_of(config_type, key) for key in known}
    told = {k: environment[name] for k, name in names.items() if name in environment}
    return dict(table) | {key: _from_variable(key, value) for key, value in told.items()}


def variable_of(config_type: type[ConfigT], key: str) -> str:
    """Return the environment variable of an option.

    >>> from zbk.config import LogConfig
    >>> variable_of(LogConfig, "level")
    'ZBK_LOG_LEVEL'
    """
    if config_type is SecurityConfig:  # of a process of any kind
        return f"ZBK_{key}".upper()
    return f"ZBK_{table_of(config_type)}_{key}".upper()


def table_of(config_type: type[ConfigT]) -> str:
    """Return the name of a configuration's table in the file."""
    return next(name for name, one in SECTIONS.items() if one is config_type)


class OptionInUse(NamedTuple):
    """An option, its value, and where that comes from: a variable, a file, or ``DEFAULT``."""

    section: str
    name: str
    value: Any
    source: str
    is_changed: bool


def options_in_use(
    tables: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str], file_name: str
) -> Iterator[OptionInUse]:
    """Yield all options with the values of environment, file and defaults, the first that has one.

    Raises:
        InvalidOptionError: an unknown key, or a value out of its range.
    """
    for section, config_type in SECTIONS.items():
        table = tables.get(section, {})
        given = given_values(config_type, environment=environment, table=table)
        values, defaults = convert(config_type, given), config_type()
        sources = sources_of(config_type, environment=environment, table=table, file_name=file_name)
        for name, source in sources.items():
            value = getattr(values, name)
            yield OptionInUse(section, name, value, source, value != getattr(defaults, name))


def sources_of(
    config_type: type[ConfigT],
    *,
    flags: Collection[str] = (),
    environment: Mapping[str, str],
    table: Collection[str],
    file_name: str,
) -> dict[str, str]:
    """Return where the value of each option comes from, by the names that each source has.

    >>> from zbk.config import LogConfig
    >>> sources_of(LogConfig, environment={}, table=["level"], file_name="zbk.toml")
    {'level': 'zbk.toml', 'format': 'default'}
    """
    found = {}
    for name in config_type.__struct_fields__:
        variable = variable_of(config_type, name)
        if name in flags:
            found[name] = COMMAND_LINE
        elif variable in environment:
            found[name] = variable
        else:
            found[name] = file_name if name in table else DEFAULT
    return found


def convert(config_type: type[ConfigT], values: Mapping[str, Any]) -> ConfigT:
    """Convert and check option values; a text becomes the size or duration that it says.

    Raises:
        InvalidOptionError: an unknown key, a wrong type, or a value out of its range.
    """
    known = config_type.__struct_fields__
    ready = {}
    for key, value in values.items():
        if key not in known:
            raise InvalidOptionError(key, HIDDEN, f"unknown option{_suggestion(key, known)}")
        ready[key] = _typed(key, value, type_of(config_type, key))
    try:
        return conversion.convert(ready, config_type)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at `$.")
        key = path.rstrip("`").partition("[")[0]
        raise InvalidOptionError(key, ready.get(key), why) from error


def _from_variable(key: str, value: str) -> object:
    if not key.endswith("_dir"):
        return value
    paths = tuple(filter(None, value.split(":")))
    return paths if len(paths) > 1 else value


def _typed(key: str, value: object, wanted: object) -> object:
    if not isinstance(value, str) or wanted not in (int, float, bool):
        return value
    if wanted is bool:
        if value.lower() not in _TRUTHS:
            raise InvalidOptionError(key, value, f"give one of {', '.join(_TRUTHS)}")
        return _TRUTHS[value.lower()]
    if wanted is float:
        try:
            return float(value)
        except ValueError as error:
            raise InvalidOptionError(key, value, "must be a number such as 0.2") from error
    is_duration = unit_of(key) == "DURATION"
    return parse_duration_ms(value, key) if is_duration else parse_size(value, key)


def _suggestion(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}" if known else "; there is none here yet"
