"""Looks for a shorter tape that breaks the same promise.

A tape is made of small integers, 0 being "nothing happens, at once"; what lies behind its end is 0.
So a shorter tape, or one with more zeros, is a simpler story. Spans are cut out, spans are set to
zero, single values are made smaller, larger spans first, as long as the attempts last.
"""

from collections.abc import Callable, Iterator
from typing import Final

from tests.simulation.run import Outcome, run_seed
from tests.simulation.world import Parts

ATTEMPT_COUNT_MAX: Final = 600


def shrink(
    failed: Outcome,
    parts: Callable[[], Parts] = Parts,
    *,
    attempt_count_max: int = ATTEMPT_COUNT_MAX,
    progress: Callable[[str], object] = lambda _text: None,
) -> list[int]:
    """Return a tape that breaks an invariant that the failed run broke."""
    names = failed.names
    best = _trimmed(failed.tape)
    left_count = attempt_count_max

    def is_failing(tape: list[int]) -> bool:
        nonlocal left_count
        left_count -= 1
        outcome = run_seed(failed.seed, parts(), recorded=tape)
        return bool(outcome.names & names)

    size = len(best)
    while size and left_count > 0:
        at = 0
        while at < len(best) and left_count > 0:
            candidate = next((c for c in _without(best, at, size) if is_failing(c)), None)
            if candidate is None:
                at += size
            else:
                best = candidate
                progress(f"{len(best)} decisions, {sum(map(bool, best))} of them not 0")
        size //= 2
    return best


def _without(tape: list[int], at: int, size: int) -> Iterator[list[int]]:
    """Yield simpler tapes: a span is gone, is zeros, is smaller."""
    end = min(at + size, len(tape))
    span = tape[at:end]
    yield _trimmed(tape[:at] + tape[end:])
    if any(span):
        yield _trimmed(tape[:at] + [0] * len(span) + tape[end:])
    if size == 1 and span[0] > 1:
        yield [*tape[:at], span[0] // 2, *tape[end:]]


def _trimmed(tape: list[int]) -> list[int]:
    end = len(tape)
    while end and not tape[end - 1]:
        end -= 1
    return tape[:end]
