"""The glossary and the code stay together."""

import inspect
import re
from pathlib import Path

import pytest

from zbk.protocol.entry import words

SOURCES = Path(words.__file__).parents[2]
TERM = re.compile(r"^([A-Za-z]+(?: [a-z]+)*)  +\S", re.MULTILINE)
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def terms() -> list[str]:
    """Return the nouns of the glossary."""
    return TERM.findall(inspect.getdoc(words) or "")


def spoken(text: str) -> str:
    """Return text with names taken apart into words, in lower case."""
    return re.sub(r"[\s_]+", " ", CAMEL.sub(" ", text)).lower()


@pytest.fixture(scope="module")
def code() -> str:
    files = [path for path in SOURCES.rglob("*.py") if path != Path(words.__file__)]
    return spoken(" ".join(path.read_text(encoding="utf-8") for path in files))


def test_a_term_is_there_once() -> None:
    assert len(terms()) == len(set(terms())) > 40


@pytest.mark.parametrize("term", terms())
def test_a_term_is_used(term: str, code: str) -> None:
    assert re.search(rf"\b{re.escape(spoken(term))}s?\b", code)


def test_each_type_of_the_module_is_a_term() -> None:
    types = [name for name, found in vars(words).items() if inspect.isclass(found)]
    own = [name for name in types if vars(words)[name].__module__ == words.__name__]

    assert own
    assert {spoken(name) for name in own} <= set(terms())


def test_the_members_of_a_type_are_named_in_its_term() -> None:
    text = inspect.getdoc(words) or ""

    assert all(state in text for state in words.LedgerState)
    assert all(member.split("_", maxsplit=1)[0] in terms() for member in words.LedgerType)
