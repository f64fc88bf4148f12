"""The page of data losses is complete, and the tests that it names are there and say so."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "DATA_LOSS.md"
NUMBERS = range(1, 46)
ROW = re.compile(r"^\| B(\d+) \| (.+?) \| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> dict[int, str]:
    """Return what the page says of each number, in its last column."""
    found = ROW.findall(PAGE.read_text("utf-8"))
    assert [int(number) for number, _what, _here in found] == list(NUMBERS)
    return {int(number): here for number, _what, here in found}


def named_numbers(path: str) -> dict[str, set[int]]:
    """Return the numbers that each test of a file names, in its name or its docstring."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {
        node.name: {
            int(number)
            for number in re.findall(r"\bB(\d+)\b", f"{node.name} {ast.get_docstring(node) or ''}")
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


def test_the_page_has_every_number_once_and_in_order() -> None:
    assert list(rows()) == list(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_each_number_has_tests_that_name_it_or_a_reason(number: int) -> None:
    here = rows()[number]
    tests = TEST.findall(here)

    reason = TEST.sub("", here).replace("<br>", "").strip()
    assert tests or len(reason) > len("Later part: x"), f"B{number} has neither test nor reason"
    assert not reason.endswith(":") or tests, f"B{number} announces tests and names none"
    for path, name in tests:
        named = named_numbers(path)
        assert name in named, f"B{number}: there is no {name} in {path}"
        assert number in named[name], f"{path}::{name} does not name B{number}"
