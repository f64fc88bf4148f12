"""The text of generated files is YAML, and a command in it that is wrong is noticed."""

from typing import Any

import click
import pytest

from tests.support.cli import Run
from tests.support.generated_files import COMPOSE, K8S, commands_in, parse, parsed
from zbk.cli.generate.yaml_text import yaml_text


def test_a_command_that_is_wrong_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        parse(["bookie", "run", "--no-such-option"])
    assert list(commands_in(["sh", "-c", "test -e x || zbk a; exec zbk b --c"])) == [
        ["a"],
        ["b", "--c"],
    ]


@pytest.mark.parametrize(
    ("arguments", "documents"),
    [
        (["compose", "--image", "zbk:1"], [COMPOSE]),
        (["k8s", "--image", "zbk:1", "--token-secret", "zbk-token"], K8S),
    ],
)
def test_what_is_printed_is_yaml(run: Run, arguments: list[str], documents: list[Any]) -> None:
    result = run("generate", *arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert parsed(result.stdout) == documents


def test_strings_with_a_meaning_in_yaml_stay_strings() -> None:
    odd = ["yes", "No", "null", "1", "1e3", "0x1", "a: b", "- a", "#", "", "a #b", "é", "~", "10s"]

    assert parsed(yaml_text([{"odd": odd, "empty": [], "nothing": {}}])) == [
        {"odd": odd, "empty": [], "nothing": {}}
    ]
