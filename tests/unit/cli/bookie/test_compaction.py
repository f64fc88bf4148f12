"""`zbk bookie compaction` and `zbk bookie test`."""

import json

import pytest

from tests.support.cli import Run


def test_both_kinds_are_suspended_or_one(run: Run) -> None:
    def shown(*arguments: str) -> dict[str, str]:
        told = json.loads(run("bookie", "compaction", "bookie-a", *arguments, "-o", "json").stdout)
        assert told.pop("bookie_id") == "bookie-a"
        return dict(told)

    assert shown() == {"minor": "on", "major": "on"}
    assert shown("suspend") == {"minor": "suspended", "major": "suspended"}
    assert shown("resume", "--minor") == {"minor": "on", "major": "suspended"}


@pytest.mark.parametrize(("argument", "exit_code"), [("--minor", 1), ("stop", 2)])
def test_a_kind_alone_and_another_word_are_refused(run: Run, argument: str, exit_code: int) -> None:
    assert run("bookie", "compaction", "bookie-a", argument).exit_code == exit_code


def test_a_test_says_that_it_passed(run: Run) -> None:
    told = json.loads(run("bookie", "test", "bookie-a", "-o", "json").stdout)
    assert told["passed"] is True
    assert told["bookie_id"] == "bookie-a"
