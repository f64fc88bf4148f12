"""What a type checker of an application sees: every name, and every mistake."""

import ast
import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import zbk
from zbk import errors
from zbk.config import ClientConfig

SNIPPETS: Final = Path(__file__).parent / "typing_snippets"
_MARK: Final = re.compile(r"# error: (.*)$")


@pytest.fixture(scope="module")
def complaints(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> dict[str, dict[int, str]]:
    """Return what a strict mypy says of each file, by line."""
    folder = tmp_path_factory.mktemp("snippets")
    for snippet in SNIPPETS.glob("*.py.txt"):
        (folder / snippet.stem).write_text(snippet.read_text("utf-8"), "utf-8")
    cache = pytestconfig.cache.mkdir("mypy_of_snippets")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    command += ["--follow-imports=silent", "--hide-error-context", "--cache-dir", str(cache)]
    ran = subprocess.run(
        [*command, "good.py", "bad.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert not ran.stderr, ran.stderr
    found: dict[str, dict[int, str]] = {"good.py": {}, "bad.py": {}}
    for line in ran.stdout.splitlines():
        name, number, kind, text = line.split(":", 3)
        if kind.strip() == "error":
            found[name][int(number)] = text
    return found


@pytest.mark.timeout(900)
def test_an_application_without_mistakes_has_no_complaints(
    complaints: dict[str, dict[int, str]],
) -> None:
    assert complaints["good.py"] == {}


@pytest.mark.timeout(900)
def test_each_mistake_is_found_in_its_line(complaints: dict[str, dict[int, str]]) -> None:
    lines = (SNIPPETS / "bad.py.txt").read_text("utf-8").splitlines()
    marks = ((number, _MARK.search(line)) for number, line in enumerate(lines, 1))
    wanted = {number: mark[1] for number, mark in marks if mark}

    assert complaints["bad.py"].keys() == wanted.keys()
    for number, text in wanted.items():
        assert text in complaints["bad.py"][number]


def test_all_errors_are_exported() -> None:
    assert {error.__name__ for error in errors.ERROR_BY_CODE.values()} <= set(zbk.__all__)
    assert all(hasattr(zbk, name) for name in zbk.__all__)
    assert len(set(zbk.__all__)) == len(zbk.__all__)


def test_the_keywords_of_connect_are_the_fields_of_its_configuration() -> None:
    keywords = typing.get_type_hints(zbk.ClientOptions)
    fields = typing.get_type_hints(ClientConfig)

    assert keywords.keys() == fields.keys()
    for name, kind in fields.items():
        is_text = re.search(r"_size|_size_max$|_ms$", name) is not None
        assert keywords[name] == (int | str if is_text else kind), name


INSIDE: Final = {"DataSetStore", "Quorum", "MissingReason", "ReadAhead", "TailBody"}
"""What an application needs no name for: a port for ``DataSets``, sizes, reasons as texts, and what
tails ask of their readers."""


def test_what_public_calls_return_has_a_public_name() -> None:
    returned = {kind for name in zbk.__all__ for kind in _returned(getattr(zbk, name))}
    names = {kind.__name__ for kind in returned if kind.__module__.startswith("zbk.")}

    assert names - INSIDE <= set(zbk.__all__)
    assert {"BookieInfo", "GarbageStatus", "LedgerWriter", "Load", "Version"} <= names


def _returned(exported: object) -> Iterator[type]:
    """Yield the classes that functions, methods and properties return, and fields have."""
    if inspect.isfunction(exported):
        yield from _classes(_hints(exported).get("return"))
    if not inspect.isclass(exported) or issubclass(exported, Exception):
        return
    for name, member in inspect.getmembers(exported):
        call = member.fget if isinstance(member, property) else member
        if inspect.isfunction(call) and not name.startswith("_"):
            yield from _classes(_hints(call).get("return"))
    if issubclass(exported, msgspec.Struct):
        for hint in _hints(exported).values():
            yield from _classes(hint)


def _hints(thing: Any) -> dict[str, Any]:  # noqa: ANN401 - a class or a function
    names = {name: getattr(zbk, name) for name in zbk.__all__}
    return typing.get_type_hints(thing, localns=names)


def _classes(hint: object) -> Iterator[type]:
    if inspect.isclass(hint) and not typing.get_args(hint):
        yield hint
    for part in typing.get_args(hint):
        yield from _classes(part)


def test_no_annotation_names_a_method_of_its_class() -> None:
    """Python 3.14 evaluates annotations late: ``list`` is the method then."""
    found = []
    for path in sorted((Path(zbk.__file__).parent).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found += [f"{path}: {node.name}: {name}" for name in _shadowed(node)]
    assert found == []


def _shadowed(node: ast.ClassDef) -> Iterator[str]:
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    names = {one.name for one in methods}
    for method in methods:
        arguments = [*method.args.args, *method.args.kwonlyargs]
        annotations = [*(one.annotation for one in arguments), method.returns]
        for annotation in filter(None, annotations):
            for part in ast.walk(annotation):
                if isinstance(part, ast.Name) and part.id in names:
                    yield f"{method.name} has {ast.unparse(annotation)}"
