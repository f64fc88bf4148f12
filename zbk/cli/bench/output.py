"""Results of benchmarks as flat fields."""

from typing import Any


def fields_of(result: object) -> dict[str, Any]:
    """Return the fields of a result, nested ones with a prefix, figures rounded.

    The fields of the load and of the cost have no prefix.
    """
    import msgspec

    flat: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(result).items():
        if isinstance(value, dict):
            prefix = "" if name in ("load", "cost") else name
            flat |= flattened(prefix, value)
        else:
            flat[name] = _rounded(value)
    return flat


def flattened(prefix: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with a prefix, figures rounded."""
    start = f"{prefix}_" if prefix else ""
    return {f"{start}{name}": _rounded(value) for name, value in fields.items()}


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value
