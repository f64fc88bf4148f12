"""The page of threats has each number, and the tests that it names are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "THREATS.md"
NUMBERS = range(1, 25)
ROW = re.compile(r"^\| S(\d+) \| (.+?) \| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_page_has_every_number_once_and_in_order() -> None:
    assert [int(row[0]) for row in ROW.findall(PAGE.read_text("utf-8"))] == list(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_each_threat_has_tests_that_are_there(number: int) -> None:
    (cell,) = [row[2] for row in ROW.findall(PAGE.read_text("utf-8")) if int(row[0]) == number]
    named = TEST.findall(cell)

    assert named
    assert cell.count("tests/") == len(named), "each is a file and a test"
    for path, name in named:
        assert name in functions_of(path), f"S{number}: there is no {name} in {path}"


def test_each_file_of_tests_of_security_is_named_or_about_commands() -> None:
    """A new file there belongs to a threat, or into this list."""
    others = {
        "test_check_security.py", "test_cluster_with_keys.py", "test_generated_cluster.py",
        "test_mixed_cluster.py", "test_rights.py", "test_rights_at_work.py",
        "test_secure_under_load.py", "test_up_secure.py", "test_zookeeper_tls.py",
    }  # fmt: skip
    named = {Path(path).name for path, _name in TEST.findall(PAGE.read_text("utf-8"))}
    there = {path.name for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert there - named <= others
