"""The examples in the docstrings of the pure layers run."""

import doctest
import importlib
import pkgutil

import pytest

import zbk.durability
import zbk.protocol

MODULES = ["zbk.errors"] + [
    f"{package.__name__}.{module.name}"
    for package in (zbk.protocol, zbk.durability)
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    failed, _attempted = doctest.testmod(importlib.import_module(name))

    assert failed == 0
