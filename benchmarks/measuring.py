"""Runs a case: its commands in turn, round after round.

A command that fails ends its case, not the suite; the result has the reason. Each command has its
own cluster in a temporary folder, which it removes, also after an interrupt.
"""

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from benchmarks.case import Case, Line, Step
from benchmarks.machine import this_machine
from benchmarks.results import CaseResult, result_of
from zbk.conversion import decode_json
from zbk.system.clock import monotonic_s

STDERR_SIZE_MAX: Final = 400
"""Characters kept from the end of a command's standard error."""

END_TIMEOUT_S: Final = 30
"""Time for an interrupted command to end in order."""

Run = Callable[[Step, int], list[Line]]
"""Runs a step with a share of its amounts and returns its output."""


class StepFailedError(Exception):
    """A command failed, was stuck, or printed something other than JSON."""

    def __init__(self, command: str, reason: str) -> None:
        """Name the command and the reason."""
        super().__init__(f"{command}: {reason}")


def run_step(step: Step, divisor: int) -> list[Line]:
    """Run a command and return its JSON lines.

    Raises:
        StepFailedError: the command has none.
    """
    command = [sys.executable, "-m", *step.command(divisor), "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            told, complained = process.communicate(timeout=step.seconds_max)
        except subprocess.TimeoutExpired as error:
            process.send_signal(signal.SIGINT)
            _let_end(process)
            reason = f"not done after {step.seconds_max} s"
            raise StepFailedError(shown(step, divisor), reason) from error
        except KeyboardInterrupt:  # Ctrl-C in a terminal, which the command received, too
            _let_end(process)
            raise
    if process.returncode:
        said = complained.decode(errors="replace").strip()[-STDERR_SIZE_MAX:]
        raise StepFailedError(shown(step, divisor), f"exit code {process.returncode}: {said}")
    try:
        return [decode_json(line, Line) for line in told.splitlines()]
    except msgspec.DecodeError as error:
        raise StepFailedError(shown(step, divisor), f"not JSON: {error}") from error


def shown(step: Step, divisor: int = 1) -> str:
    """Return a command as a user types it."""
    words = step.command(divisor)
    return shlex.join(("python", "-m", *words) if step.is_experiment else words)


def run_case(case: Case, round_count: int, divisor: int = 1, *, run: Run = run_step) -> CaseResult:
    """Run the rounds of a case and return their result."""
    machine = this_machine()
    started_s = monotonic_s()
    rounds: list[dict[str, list[Line]]] = []
    failure = ""
    try:
        for number in range(case.round_count or round_count):
            steps = _in_turn(case.steps, number)
            lines = {step.name: run(step, divisor) for step in steps}
            rounds.append({step.name: lines[step.name] for step in case.steps})
    except StepFailedError as error:
        failure = str(error)
    return result_of(
        case,
        rounds,
        machine,
        commands={step.name: shown(step, divisor) for step in case.steps},
        seconds=monotonic_s() - started_s,
        failure=failure,
    )


def _let_end(process: subprocess.Popen[bytes]) -> None:
    """Wait until an interrupted command has stopped its cluster and removed its folder."""
    try:
        process.communicate(timeout=END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _in_turn(steps: Sequence[Step], number: int) -> Sequence[Step]:
    """Return the steps, reversed in every second round: the first one may have an advantage."""
    return steps[::-1] if number % 2 else steps
