"""Count the code of the package at revisions: ``python -m tests.count_code REV ...``.

It prints a column for each revision, read from git; ``WORK`` is the working tree. An *event struct*
is a struct without methods: events, effects, requests, records.

``python -m tests.count_code --check`` looks for what is too large in the working tree, and prints
it: files of all folders, tables excepted, and constructors of the package. `make check` runs it.
"""

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_TABLES = frozenset(
    {
        "zbk/admin/operations.py",
        "zbk/config/__init__.py",
        "zbk/errors.py",
        "zbk/metrics/table.py",
        "zbk/wire/messages.py",
    }
)
_TABLES_OF_TESTS = frozenset({"tests/simulation/defects.py"})
_FOLDERS = ("zbk", "spark", "benchmarks", "docs", "tests")
_LINES_MAX = 400
_PARAMETERS_MAX = 8
_LAYOUT = frozenset(
    {
        tokenize.NEWLINE,
        tokenize.NL,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.COMMENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)
_STRUCTS = frozenset({"Struct", "dataclass"})


def sources(revision: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each Python file of the package at a revision."""
    if revision == "WORK":
        yield from _working_tree("zbk")
        return
    listed = _git("ls-tree", "-r", "--name-only", revision, "zbk")
    for name in listed.splitlines():
        if name.endswith(".py"):
            yield name, _git("show", f"{revision}:{name}")


def count(revision: str) -> dict[str, int]:
    """Return what is counted at a revision, by name."""
    counts = dict.fromkeys(
        (
            "files",
            "lines",
            "code lines",
            "docstring lines",
            "comment lines",
            "functions",
            "classes",
            "event structs",
            "files over 400 lines, without tables",
            "constructors over eight parameters",
        ),
        0,
    )
    for path, text in sources(revision):
        tree = ast.parse(text)
        docstrings = set(_docstring_lines(tree))
        code, comments = _token_lines(text)
        line_count = len(text.splitlines())
        counts["files"] += 1
        counts["lines"] += line_count
        counts["docstring lines"] += len(docstrings)
        counts["code lines"] += len(code - docstrings)
        counts["comment lines"] += len(comments - code)
        counts["files over 400 lines, without tables"] += (
            line_count > _LINES_MAX and path not in _TABLES
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                counts["functions"] += 1
                counts["constructors over eight parameters"] += _is_long_constructor(node)
            elif isinstance(node, ast.ClassDef):
                counts["classes"] += 1
                counts["event structs"] += _is_event(node)
    return counts


def main(revisions: list[str]) -> None:
    """Print a table with one column a revision."""
    columns = [count(revision) for revision in revisions]
    rows = [f"{'':38}" + "".join(f"{revision:>10}" for revision in revisions)]
    rows += [
        f"{name:38}" + "".join(f"{column[name]:>10,}" for column in columns) for name in columns[0]
    ]
    sys.stdout.write("\n".join(rows) + "\n")


def check() -> int:
    """Print each finding as file:line: text; return the exit code."""
    findings = []
    for folder in _FOLDERS:
        for path, text in _working_tree(folder):
            line_count = len(text.splitlines())
            if line_count > _LINES_MAX and path not in _TABLES | _TABLES_OF_TESTS:
                findings.append(f"{path}:{line_count}: more than {_LINES_MAX} lines: divide it")
            if folder == "zbk":
                findings += [
                    f"{path}:{node.lineno}: more than {_PARAMETERS_MAX} parameters: group some"
                    for node in ast.walk(ast.parse(text))
                    if isinstance(node, ast.FunctionDef) and _is_long_constructor(node)
                ]
    for finding in findings:
        sys.stderr.write(f"{finding}\n")
    return 1 if findings else 0


def _working_tree(folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted((_ROOT / folder).rglob("*.py")):
        yield path.relative_to(_ROOT).as_posix(), path.read_text()


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.check_output(command, cwd=_ROOT, text=True)


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the numbers of the lines in docstrings, those of fields included."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _token_lines(text: str) -> tuple[set[int], set[int]]:
    """Return the lines that hold code (or docstrings) and the lines that hold comments."""
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return code, comments


def _is_long_constructor(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return node.name == "__init__" and len(parameters) - 1 > _PARAMETERS_MAX


def _is_event(node: ast.ClassDef) -> bool:
    """Return whether a class is a struct of data without methods."""
    names = {
        getattr(part, "attr", getattr(part, "id", ""))
        for owner in (*node.bases, *node.decorator_list)
        for part in ast.walk(owner)
    }
    has_methods = any(
        isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body
    )
    return bool(names & _STRUCTS) and not has_methods


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(prog="python -m tests.count_code")
    _parser.add_argument("revisions", metavar="REV", nargs="*", default=["HEAD", "WORK"])
    _parser.add_argument("--check", action="store_true", help="look for what is too large")
    _arguments = _parser.parse_args()
    if _arguments.check:
        sys.exit(check())
    main(_arguments.revisions)
