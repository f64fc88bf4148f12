"""Each log call of zbk is an event: a constant name, a constant text, and values as fields.

docs/reference/events.md lists them; its meanings and remedies are written by hand.
"""

import ast
import logging
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reference" / "events.md"

METHODS: Final = ("debug", "info", "warning", "error", "exception", "critical", "log")
RESERVED: Final = {
    *vars(logging.makeLogRecord({})),
    *("message", "asctime", "time", "level", "logger", "event", "values", "exception"),
}
"""Attributes of a record, and keys of a JSON line."""

NAME: Final = re.compile(r"[a-z]+(\.[a-z]+(_[a-z]+)*)+")
PLACEHOLDER: Final = re.compile(r"%\((\w+)\)[-0-9.]*[dgrsx]")


class Event(NamedTuple):
    where: str
    name: str
    levels: frozenset[str]
    text: str
    fields: frozenset[str]


def calls_in(source: str, where: str) -> Iterator[Event | str]:
    """Yield each log call as an event, or as a text that says what is wrong with it."""
    nodes = list(ast.walk(ast.parse(source)))
    functions = [one for one in nodes if isinstance(one, ast.FunctionDef)]
    for node in nodes:
        match node:
            case ast.Call(ast.Attribute(receiver, str(method)), args, keywords) if (
                method in METHODS
            ):
                owner = ast.unparse(receiver)
                place = f"{where}:{node.lineno}"
            case _:
                continue
        if not re.search("^LOG$|EventLog|logg", owner, re.IGNORECASE):
            continue
        if owner != "LOG" and not owner.startswith("EventLog("):
            yield f"{place}: {owner}.{method} is not a method of an EventLog"
            continue
        levels = {method if method != "exception" else "error"}
        if method == "log":
            level, *args = args
            around = [
                one for one in functions if one.lineno <= node.lineno <= (one.end_lineno or 0)
            ]
            levels_in = re.compile(r"logging\.([A-Z]+)").findall
            found = levels_in(ast.unparse(around[-1])) or levels_in(source)
            assert found, f"{place}: which levels may {ast.unparse(level)} be?"
            levels = {one.lower() for one in found}
        match args:
            case [ast.Constant(str(name)), ast.Constant(str(text))]:
                fields = frozenset(str(one.arg) for one in keywords) - {"exc_info"}
                yield Event(place, name, frozenset(levels), text, fields)
            case _:
                yield f"{place}: neither name nor text of an event may be computed"


def all_calls() -> Iterator[Event | str]:
    for path in sorted((ROOT / "zbk").rglob("*.py")):
        if path.name != "event_log.py":
            yield from calls_in(path.read_text("utf-8"), str(path.relative_to(ROOT)))


@cache  # not while tests are collected, which every process of a run does
def events() -> list[Event]:
    calls = list(all_calls())
    assert [call for call in calls if isinstance(call, str)] == []
    return [call for call in calls if isinstance(call, Event)]


def test_each_log_call_has_a_constant_event_name_and_text() -> None:
    assert len(events()) > 100


def test_a_log_call_without_a_constant_name_is_found() -> None:
    bad = [
        'logger.info("text")',
        'logging.getLogger("zbk").error("text %s", 1)',
        "logging.warning('text')",
        'LOG.info("text only")',
        'LOG.info(name, "text")',
        'LOG.info("a.name", f"text {value}")',
        'LOG.info("a.name", "text %s", value)',
    ]
    for source in bad:
        (found,) = calls_in(source, "bad.py")
        assert isinstance(found, str), source
    assert list(calls_in('LOG.info("a.name", "of %(size)d", size=1)', "good.py")) == [
        Event("good.py:1", "a.name", frozenset({"info"}), "of %(size)d", frozenset({"size"}))
    ]


def test_event_names_are_of_one_form() -> None:
    assert [one for one in events() if not NAME.fullmatch(one.name)] == []


def test_a_name_has_one_text_and_a_text_one_name() -> None:
    texts: defaultdict[str, set[str]] = defaultdict(set)
    names: defaultdict[str, set[str]] = defaultdict(set)
    for one in events():
        texts[one.name].add(one.text)
        names[one.text].add(one.name)
    assert {name: found for name, found in texts.items() if len(found) > 1} == {}
    bare = "%(error)s"  # errors that say all
    del names[bare]
    assert {text: found for text, found in names.items() if len(found) > 1} == {}


def test_each_value_of_a_text_is_a_field_and_no_field_hides_another() -> None:
    for one in events():
        assert set(PLACEHOLDER.findall(one.text)) <= one.fields, one
        assert "%" not in PLACEHOLDER.sub("", one.text), one
        assert not one.fields & RESERVED, one


def test_the_page_lists_each_event_with_its_levels_meaning_and_remedy() -> None:
    page = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `([a-z._]+)` \| ([a-z, ]+) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    levels: defaultdict[str, set[str]] = defaultdict(set)
    for one in events():
        levels[one.name] |= one.levels
    order = ("debug", "info", "warning", "error", "critical")
    assert {name: told for name, told, _, _ in rows} == {
        name: ", ".join(level for level in order if level in found)
        for name, found in levels.items()
    }
    assert len(rows) == len(levels), "an event is listed twice"
    assert page.count("\n| `") == len(rows), "a row is malformed"
