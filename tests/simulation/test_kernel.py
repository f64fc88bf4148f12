"""A process that was paused does what came meanwhile in the order in which it came."""

from collections.abc import Callable

import pytest

from tests.simulation.kernel import SECOND, Kernel, Node
from tests.simulation.tape import Tape


@pytest.mark.parametrize("is_ended_early", [False, True])
def test_what_comes_during_a_pause_is_done_behind_it_and_in_order(*, is_ended_early: bool) -> None:
    kernel = Kernel(Tape(1))
    node, done = Node(kernel, "a"), list[str]()

    def note(name: str) -> Callable[[], None]:
        return lambda: done.append(name)

    node.pause(SECOND)
    node.after(10, note("first"))
    node.after(20, note("second"))
    kernel.run_until(SECOND // 2)
    assert done == []
    if is_ended_early:
        node.resume()
    node.after(0, note("third"))
    kernel.run_until(SECOND - 1)
    assert done == (["first", "second", "third"] if is_ended_early else [])
    kernel.run_until(2 * SECOND)
    assert done == ["first", "second", "third"]
