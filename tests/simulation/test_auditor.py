"""The simulated auditor hears the answers of its steps in the order of the real one."""

from collections.abc import Callable

import pytest

from tests.simulation.auditor import Executor
from tests.simulation.faults import Faults
from tests.simulation.kernel import SECOND, Kernel, Node
from tests.simulation.metadata import MetadataServer
from tests.simulation.run import run_seed
from tests.simulation.tape import Tape
from tests.support.history import History
from zbk.errors import MetadataUnavailableError

SLOWEST, AT_ONCE = 7, 0


@pytest.fixture
def metadata() -> MetadataServer:
    """Return a store that is slow at first, both ways."""
    faults = Faults()
    faults.metadata_slow_us_max = SECOND
    return MetadataServer(Kernel(Tape(recorded=[AT_ONCE, SLOWEST, SLOWEST])), faults, History())


def test_a_step_begins_when_the_one_before_is_answered(metadata: MetadataServer) -> None:
    node, done = Node(metadata.kernel, "auditor"), list[object]()
    executor = Executor(metadata, node)

    def step(name: str) -> Callable[[], str]:
        def take() -> str:
            done.append(f"{name} begins")
            return name

        return take

    executor.submit(step("first"), done.append)
    executor.submit(step("second"), done.append)
    metadata.kernel.run_until(10 * SECOND)

    assert done == ["first begins", "first", "second begins", "second"]


def test_a_step_that_fails_holds_no_other(metadata: MetadataServer) -> None:
    node, done = Node(metadata.kernel, "auditor"), list[object]()
    executor, error = Executor(metadata, node), MetadataUnavailableError("simulated", "tested")

    def fail() -> None:
        raise error

    executor.submit(fail, done.append)
    executor.submit(lambda: "second", done.append)
    metadata.kernel.run_until(10 * SECOND)

    assert done == [error, "second"]


@pytest.mark.parametrize("seed", [99015396])
def test_no_look_answers_after_a_later_one(seed: int) -> None:
    """An auditor believed an old look, in which a bookie was there, and no news followed."""
    assert run_seed(seed).violations == []
