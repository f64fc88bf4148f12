"""A run is a function of its tape: it can be replayed anywhere, and shrunk."""

import gc
import logging
import os
import subprocess
import sys

import pytest

from tests.simulation.defects import DEFECTS
from tests.simulation.run import run_seed
from tests.simulation.shrink import shrink
from tests.simulation.tape import Tape
from tests.simulation.world import World

SEED = 11
UNANSWERED_SEEDS = (0, 3, 79000057)
"""At their ends a writer that shares a client has appends that wait, or waits for answers."""


def test_the_order_of_hashes_does_not_matter() -> None:
    prints = {
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", str(SEED), "--trace"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        ).stdout
        for hash_seed in ("0", "1", "2")
    }

    assert len(prints) == 1
    assert len(prints.pop().splitlines()) > 20


def test_a_recorded_tape_makes_the_same_run() -> None:
    first = run_seed(SEED)

    again = run_seed(0, recorded=first.tape)

    assert (again.trace_hash, again.tape) == (first.trace_hash, first.tape)


def test_a_tape_of_zeros_is_a_quiet_run() -> None:
    outcome = run_seed(0, recorded=[])

    assert not outcome.violations
    assert outcome.entry_count == 20
    assert not outcome.faults.deeds


def test_a_failing_run_shrinks_to_one_that_breaks_the_same_promise() -> None:
    defect = DEFECTS["M4"]
    failed = defect.first_caught()
    assert failed is not None

    with defect.put_in():
        tape = shrink(failed, defect.parts, attempt_count_max=60)

    shrunk = defect.run(0, recorded=tape)
    assert shrunk.names & failed.names
    assert sum(map(bool, tape)) < sum(map(bool, failed.tape)) // 4


def test_what_lies_behind_the_end_of_a_tape_is_nothing() -> None:
    tape = Tape(recorded=[5, 1])

    drawn = [tape.draw(4), tape.chance(500), tape.draw(9), tape.chance(999)]

    assert drawn == [1, True, 0, False]
    assert tape.values == [1, 1, 0, 0]


@pytest.mark.parametrize("seed", UNANSWERED_SEEDS)
def test_a_run_leaves_nothing_in_memory(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "zbk")  # a kept record of a failure has its frames
    before = _world_count()

    run_seed(seed)

    assert _world_count() == before


def _world_count() -> int:
    gc.collect()
    return sum(isinstance(each, World) for each in gc.get_objects())
