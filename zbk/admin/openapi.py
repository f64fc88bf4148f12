"""The OpenAPI document of the admin API, made from the table of operations."""

from typing import Any, Final

from zbk.admin.operation import SECRET_HEADER, Operation, Parameter
from zbk.admin.operations import OPERATIONS
from zbk.version import __version__

PATH: Final = "/api/v1/openapi.json"

ERROR: Final = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "error": {"type": "string"}},
    "required": ["code", "error"],
}


def document(*, has_actions: bool = False) -> dict[str, Any]:
    """Return the document of a process that allows actions, or does not."""
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "zbk admin API", "version": __version__},
        "x-zbk-has-actions": has_actions,
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def _operation(one: Operation) -> dict[str, Any]:
    body = {"requestBody": _body(one)} if one.has_body and one.parameters else {}
    return {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [_parameter(parameter) for parameter in one.parameters],
        **body,
        "responses": {
            "200": {"description": "Done.", "content": _json(dict(one.answer))},
            "default": {"description": "An error of zbk.", "content": _json(ERROR)},
        },
        "x-zbk-is-action": one.is_action,
        "x-zbk-commands": list(one.commands),
    }


def _parameter(one: Parameter) -> dict[str, Any]:
    is_secret = one.kind == "secret"
    made = {
        "name": SECRET_HEADER if is_secret else one.name,
        "in": "header" if is_secret else "query",
        "required": one.is_required,
        "description": one.help,
        "schema": one.schema(),
    }
    return made | {"explode": False} if one.kind == "list" else made


def _body(one: Operation) -> dict[str, Any]:
    """Return the body that may have the parameters instead of the query."""
    properties = {
        parameter.name: parameter.schema() | {"description": parameter.help}
        for parameter in one.parameters
    }
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"required": False, "content": _json(schema)}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
