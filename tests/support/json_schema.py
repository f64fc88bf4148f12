"""Answers of the admin API against the document that describes them."""

from typing import Any

from zbk.admin.openapi import document


def check_answer(method: str, path: str, answer: object) -> None:
    """Check an answer against the part of the document about its route."""
    described = document()["paths"][path][method.lower()]["responses"]["200"]
    check(answer, described["content"]["application/json"]["schema"])


def check(value: object, schema: dict[str, Any]) -> None:
    """Check a value against the part of JSON Schema that the document uses."""
    if "anyOf" in schema:
        kind = "null" if value is None else "array" if isinstance(value, list) else "object"
        check(value, next(one for one in schema["anyOf"] if one["type"] == kind))
        return
    wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    types: dict[type, set[str]] = {
        bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, str: {"string"},
        dict: {"object"}, list: {"array"}, type(None): {"null"},
    }  # fmt: skip
    assert types[type(value)] & set(wanted), (value, schema)
    if isinstance(value, list):
        for one in value:
            check(one, schema["items"])
    elif isinstance(value, dict):
        assert set(schema.get("required", ())) <= value.keys()
        for name, one in value.items():
            if name in schema.get("properties", {}):
                check(one, schema["properties"][name])
            elif "additionalProperties" in schema:
                check(one, schema["additionalProperties"])
