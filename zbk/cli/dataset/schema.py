"""The columns of a data set, from the schema that Spark stores. Pure.

zbk stores a schema as bytes and does not interpret it. Spark's is JSON: a ``struct`` of fields,
each with a name and a type, which is a name or again a ``struct``, an ``array`` or a ``map``.
"""

import json
from typing import Any


def columns_of(schema: bytes) -> list[dict[str, str]] | None:
    """Return name and type of each column; ``None`` if the schema is not Spark's.

    >>> columns_of(b'{"type":"struct","fields":[{"name":"id","type":"long"}]}')
    [{'column': 'id', 'type': 'long'}]
    """
    try:
        fields = json.loads(schema)["fields"]
        return [{"column": str(one["name"]), "type": _type_text(one["type"])} for one in fields]
    except (ValueError, TypeError, KeyError):
        return None


def _type_text(kind: Any) -> str:  # noqa: ANN401 - as JSON has it
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "struct":
            fields = (f"{one['name']}:{_type_text(one['type'])}" for one in kind["fields"])
            return f"struct<{','.join(fields)}>"
        case "array":
            return f"array<{_type_text(kind['elementType'])}>"
        case "map":
            return f"map<{_type_text(kind['keyType'])},{_type_text(kind['valueType'])}>"
        case other:
            return str(other)
