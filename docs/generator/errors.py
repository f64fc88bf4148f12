"""The sections of errors, made from the error classes (``zbk.errors``)."""

import inspect
from collections.abc import Iterator

from docs.generator.text import page, plain, table
from zbk.errors import ZbkError, exit_code_of


def errors() -> str:
    """Return the tree, then a section for each error."""
    found = list(_tree(ZbkError, 0))
    rows = [
        (f"{'&emsp;' * depth}[`{error.__name__}`](#{error.__name__.lower()})", str(error.code),
         "yes" if error.is_retriable else "", error.outcome, str(exit_code_of(error)))
        for error, depth in found
    ]  # fmt: skip
    return page(
        "## All errors",
        table(["error", "code", "retriable", "outcome", "exit code"], rows),
        *(part for error, _ in found for part in _section(error)),
    )


def _tree(error: type[ZbkError], depth: int) -> Iterator[tuple[type[ZbkError], int]]:
    yield error, depth
    for child in sorted(error.__subclasses__(), key=lambda one: one.code):
        if child.__module__ == ZbkError.__module__:  # an application may have its own
            yield from _tree(child, depth + 1)


def _section(error: type[ZbkError]) -> Iterator[str]:
    yield f"### {error.code} {error.__name__} {{ #{error.__name__.lower()} }}"
    yield plain(inspect.getdoc(error) or "")
    if fields := error.__match_args__:
        yield "Fields: " + ", ".join(f"`{field}`" for field in fields) + "."
    if error.text and error.text != "{reason}":
        yield f"Text: `{error.text.replace('`', chr(39))}`"
