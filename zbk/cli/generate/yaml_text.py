"""Text of YAML documents from plain values: mappings, lists, strings, numbers, booleans.

A string that is not a plain word is written in JSON's form, which is YAML, too.

>>> print(yaml_text([{"a": 1, "b": ["x", "y: z"], "c": {}}]), end="")
---
a: 1
b:
- x
- "y: z"
c: {}
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS_WITH_A_MEANING: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
)


def yaml_text(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of several documents."""
    lines = [line for document in documents for line in ("---", *_lines(document))]
    return "\n".join(lines) + "\n"


def _lines(value: object) -> Iterator[str]:
    match value:
        case Mapping():
            for key, field in value.items():
                yield from _field(f"{_scalar(str(key))}:", field)
        case list() | tuple():
            for item in value:
                head, *rest = list(_lines(item)) if _is_nested(item) else [_scalar(item)]
                yield f"- {head}"
                yield from (f"  {line}" for line in rest)
        case _:
            yield _scalar(value)


def _field(head: str, value: object) -> Iterator[str]:
    if not _is_nested(value):
        yield f"{head} {_scalar(value)}"
        return
    yield head
    indent = "" if isinstance(value, list | tuple) else "  "
    yield from (f"{indent}{line}" for line in _lines(value))


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _scalar(value: object) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value)
    if is_plain and str(value).lower() not in _WORDS_WITH_A_MEANING:
        return str(value)
    return json.dumps(value, ensure_ascii=False)
