"""The tables of options, made from the table of options (``zbk.config``)."""

from typing import Literal, get_args, get_origin

from docs.generator.text import page, plain, table
from zbk.cli.config_options import value_text
from zbk.config import SECTIONS, ConfigType
from zbk.config.option import Option, options_of, type_of


def options() -> str:
    """Return a table for each table of the configuration file."""
    parts: list[str] = []
    for name, config_type in SECTIONS.items():
        parts += [f"## [{name}] {{ #{name} }}", plain(config_type.__doc__ or "")]
        rows = [_row(config_type, key, option) for key, option in options_of(config_type).items()]
        parts.append(table(["option", "value", "default", "range", "meaning"], rows))
    return page(*parts)


def _row(config_type: ConfigType, key: str, option: Option) -> tuple[str, ...]:
    default = config_type.__struct_defaults__[config_type.__struct_fields__.index(key)]
    shown = "0" if default == 0 and default is not False else value_text(key, default)
    return (
        f"`{key}`",
        _kind(type_of(config_type, key), option, key),
        f"`{shown}`" if shown else "",
        _range(option, key),
        f"{option.help} Live." if option.is_live else option.help,
    )


def _kind(value_type: object, option: Option, key: str) -> str:
    if get_origin(value_type) is Literal:
        return ", ".join(f"`{one}`" for one in get_args(value_type))
    return "true, false" if value_type is bool else option.unit_of(key)


def _range(option: Option, key: str) -> str:
    if option.low is None or option.high is None:
        return ""
    return f"{_bound(key, option.low)} to {_bound(key, option.high)}"


def _bound(key: str, value: float) -> str:
    return value_text(key, int(value) if value == int(value) else value) if value else "0"
