"""The examples in the docstrings run."""

import doctest
import importlib
from pathlib import Path

import pytest

import zbk

ROOT = Path(zbk.__file__).parent
MODULES = [
    ".".join(("zbk", *path.relative_to(ROOT).with_suffix("").parts))
    for path in sorted(ROOT.rglob("*.py"))
    if path.name != "__init__.py" and ">>> " in path.read_text()
]


def test_there_are_examples_in_many_packages() -> None:
    assert {name.split(".")[1] for name in MODULES} >= {"client", "protocol", "storage", "wire"}


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    failed, _attempted = doctest.testmod(importlib.import_module(name))

    assert failed == 0
