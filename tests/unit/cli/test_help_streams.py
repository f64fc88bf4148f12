"""The help of every command, to standard streams that fail or are narrow."""

import os

import click
import pytest

from tests.support.command_samples import ARGUMENTS, UNTIL_STOPPED
from tests.support.stream_trial import Trials
from tests.unit.cli.test_help import ALL

WAYS = {"full": 1, "no-output": 1, "head": 0, "narrow": 0}
LINES = {
    "full": "zbk: [Errno 28] No space left on device: 'standard output'\n",
    "no-output": "zbk: [Errno 9] it is closed; redirect it to /dev/null: 'standard output'\n",
}


@pytest.mark.parametrize(("way", "exit_code"), WAYS.items())
def test_help_ends_with_one_line_at_most(way: str, exit_code: int) -> None:
    with Trials(os.environ) as trials:
        for name in ["zbk", *(found[0] for found in ALL)]:
            outcome = trials.run([*name.split()[1:], "--help"], way)

            assert outcome.exit_code == exit_code, (name, outcome)
            assert outcome.errors == LINES.get(way, ""), name
            assert "Traceback" not in outcome.output


def test_every_command_has_a_sample_that_is_tried_with_failing_streams() -> None:
    names = {name for name, command, _ in ALL if not isinstance(command, click.Group)}

    assert {name.removeprefix("zbk ") for name in names} == ARGUMENTS.keys() | UNTIL_STOPPED
