"""The experiment with slow disks: its options, its programs, the backlog that it watches."""

import threading

import pytest
from click.testing import CliRunner

from benchmarks.experiments.__main__ import experiments
from benchmarks.experiments.slow_disks import Backlog
from benchmarks.slow_bookie import slow_programs


class FakeWriter:
    def __init__(self) -> None:
        self.sizes = [4_096, 8_192]
        self.was_read = threading.Event()

    @property
    def unanswered_size(self) -> int:
        if len(self.sizes) > 1:
            return self.sizes.pop()
        self.was_read.set()
        return self.sizes[0]


def test_the_largest_backlog_of_all_writers_together_counts() -> None:
    writers = [FakeWriter(), FakeWriter()]

    with Backlog() as backlog:
        backlog.watch(writers)
        assert all(writer.was_read.wait(30) for writer in writers)

    assert backlog.size_max == 2 * 8_192


def test_a_backlog_that_is_not_watched_is_none() -> None:
    with Backlog() as backlog:
        pass

    assert backlog.size_max == 0


def test_one_bookie_is_slow_or_all_are_or_none_is() -> None:
    assert slow_programs(0, 0) == {}
    assert {number: words[-1] for number, words in slow_programs(40, 0).items()} == {2: "40ms"}
    assert {number: words[-1] for number, words in slow_programs(0, 50).items()} == dict.fromkeys(
        range(3), "50ms"
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "Give one of --slow-bookie and --slow-disks"),
        (["--slow-disks", "5ms", "--slow-bookie", "5ms"], "Give one of"),
        (["--slow-disks", "5ms", "--outstanding", "2"], "--outstanding is for --api async"),
        (["--slow-disks", "soon"], "is not a duration"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(experiments, ["write", *arguments])

    assert result.exit_code == 2
    assert reason in result.stderr
