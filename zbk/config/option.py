"""Options: the declaration of each is an annotation of its field.

A configuration is a struct whose fields are ``Annotated[type, Option(...)]``. The field has the
name, type and default; the ``Option`` has the help and the range. Commands, ``zbk config`` and the
checks of values read this one declaration.
"""

from typing import Any, Final

import msgspec

from zbk.config.units import unit_of
from zbk.errors import InvalidOptionError

DIRECTORY_COUNT_MAX: Final = 8
"""Limit on the journal directories, and on the ledger directories, of one bookie."""


class Option(msgspec.Struct, frozen=True):
    """Declaration of an option. ``low`` and ``high`` are the range of its value, ends included."""

    help: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    is_live: bool = False  # a change needs no restart (``zbk.config.running``)

    def unit_of(self, name: str) -> str:
        """Return what help shows in place of the value of the option ``name``."""
        return self.unit or unit_of(name) or "TEXT"


def options_of(config_type: type[msgspec.Struct]) -> dict[str, Option]:
    """Return the options of a configuration, by name and in the order of the fields."""
    annotations = config_type.__annotations__
    return {name: hint.__metadata__[0] for name, hint in annotations.items()}


def type_of(config_type: type[msgspec.Struct], name: str) -> Any:  # noqa: ANN401 - any type form
    """Return the type of an option's value."""
    return config_type.__annotations__[name].__origin__


def check_ranges(config: msgspec.Struct) -> None:
    """Check that each value is in the range of its option.

    Raises:
        InvalidOptionError: one is not.
    """
    for name, option in options_of(type(config)).items():
        if option.low is not None and option.high is not None:
            check_range(config, name, option.low, option.high)


def check_range(config: msgspec.Struct, name: str, low: float, high: float) -> None:
    """Check that one value is in a range, ends included; NaN is in none.

    Raises:
        InvalidOptionError: it is not.
    """
    value = getattr(config, name)
    if not low <= value <= high:
        raise InvalidOptionError(name, value, f"must be between {low} and {high}")


def paths_of(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the directories of an option, in their order; none if the option is empty."""
    return tuple(filter(None, [value])) if isinstance(value, str) else value


def check_paths(name: str, value: str | tuple[str, ...]) -> None:
    """Check the directories of an option.

    Raises:
        InvalidOptionError: there are too many, or one is empty or there twice.
    """
    paths = paths_of(value)
    if len(paths) > DIRECTORY_COUNT_MAX:
        raise InvalidOptionError(name, len(paths), f"at most {DIRECTORY_COUNT_MAX} directories")
    if len(set(paths)) < len(paths) or not all(paths):
        raise InvalidOptionError(name, ", ".join(paths), "a path is empty, or there twice")
