"""Options of commands that are fields of a configuration: what their help shows."""

from typing import Final

from zbk.config import GIB, KIB, MIB, ConfigType, variable_of

_METAVARS: Final = {
    "_free": "SIZE|PERCENT",
    "_dir": "DIR",
    "_threshold": "SHARE",
    "_max": "COUNT",
}


def source_text(config_type: ConfigType, name: str, default: str = "") -> str:
    """Return what the help of an option says of its variable and its default, as click does."""
    shown = f"; default: {default}" if default else ""
    return f"[env var: {variable_of(config_type, name)}{shown}]"


def value_text(name: str, default: float | str | tuple[str, ...]) -> str:
    """Return the value of an option as one would type it: ``64 MiB``, ``10s``."""
    if isinstance(default, tuple):
        return ":".join(default)
    if isinstance(default, bool):
        return str(default).lower()
    units: list[tuple[str, int]] = [("", 1)]
    match metavar_of(name):
        case "SIZE":
            units = [(" GiB", GIB), (" MiB", MIB), (" KiB", KIB), ("", 1)]
        case "DURATION":
            units = [("s", 1_000), ("ms", 1)]
    for unit, factor in units:
        if isinstance(default, int) and default % factor == 0:
            return f"{default // factor}{unit}"
    return str(default)


def metavar_of(name: str) -> str:
    """Return what the help shows for the value of a bookie's option."""
    if name.endswith("_ms"):
        return "DURATION"
    if name.endswith(("_size", "_size_max")) or name == "memory_max":
        return "SIZE"
    for ending, shown in _METAVARS.items():
        if name.endswith(ending):
            return shown
    return "NAME" if name in {"rack", "boot_id"} else "ADDRESS"
