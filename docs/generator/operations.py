"""The tables of the admin API, made from its operations (``zbk.admin``)."""

from docs.generator.text import page, table
from zbk.admin.operation import Operation, Parameter
from zbk.admin.operations import OPERATIONS


def operations() -> str:
    """Return a table of what only reads, and one of what changes something."""
    heads = ["operation", "meaning", "parameters", "command"]
    return page(
        "## Operations that read",
        table(heads, [_row(one) for one in OPERATIONS if not one.is_action]),
        "## Operations that change something",
        table(heads, [_row(one) for one in OPERATIONS if one.is_action]),
    )


def _row(operation: Operation) -> tuple[str, str, str, str]:
    parameters = "; ".join(_parameter(one) for one in operation.parameters)
    commands = ", ".join(f"`{one}`" for one in operation.commands)
    return f"`{operation.method} {operation.path}`", operation.summary, parameters, commands


def _parameter(parameter: Parameter) -> str:
    required = " (required)" if parameter.is_required else ""
    return f"`{parameter.name}`{required}: {parameter.help.rstrip('.')}"
