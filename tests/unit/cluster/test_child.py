"""A child process: its last words, its ends, its pauses."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.interrupts import InterruptedLock, raising_handlers
from tests.support.waiting import wait_until
from zbk.cluster import child as child_module
from zbk.cluster.child import LOG_LINES_SHOWN, Child
from zbk.errors import BookieError

Start = Callable[[str], Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    children = []

    def make(program: str) -> Child:
        child = Child("the child", [sys.executable, "-c", program], tmp_path / "logs" / "child.log")
        children.append(child)
        return child

    yield make
    for child in children:
        child.kill()


def ended(child: Child) -> bool:
    return child.exit_code is not None


TELLS_A_LOT = """
import pathlib, sys, threading
for number in range(1_000):
    print("early", number)
print("all of it", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    threading.Event().wait(0.01)
print("late")
"""


def test_a_large_log_is_moved_and_goes_on_at_its_beginning(tmp_path: Path) -> None:
    log, go_on = tmp_path / "child.log", tmp_path / "go-on"
    command = [sys.executable, "-c", TELLS_A_LOT, str(go_on)]
    child = Child("the child", command, log, log_size_max=5_000)
    wait_until(lambda: "all of it" in log.read_text())

    assert child.rotate_log()

    assert log.read_bytes() == b""
    old = (tmp_path / "child.log.1").read_text().splitlines()
    assert (old[0], old[-1], len(old)) == ("early 0", "all of it", 1_001)
    go_on.touch()
    wait_until(lambda: ended(child))
    assert log.read_bytes() == b"late\n"
    assert child.log_tail() == ["late"]
    assert not child.rotate_log()
    child.kill()


def test_a_log_that_cannot_be_moved_is_left(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    (tmp_path / "child.log.1").mkdir()
    child = Child("the child", [sys.executable, "-c", "print('x' * 50)"], log, log_size_max=30)
    wait_until(lambda: ended(child))

    assert not child.rotate_log()
    (tmp_path / "child.log.1").rmdir()
    assert not child.rotate_log(), "it is not twice as large yet"

    assert len(log.read_bytes()) == 51
    child.kill()


def test_a_dead_child_is_named_with_its_exit_code_and_the_end_of_its_log(start: Start) -> None:
    child = start("import sys\nfor n in range(99): print('line', n)\nsys.exit('no disk')")
    wait_until(lambda: ended(child))

    text = str(child.death())

    assert "the child ended with exit code 1" in text
    assert text.splitlines()[-1] == "    no disk"
    assert len(text.splitlines()) == 1 + LOG_LINES_SHOWN


def test_a_child_that_wrote_nothing_is_named_too(start: Start) -> None:
    child = start("import os\nos.kill(os.getpid(), 9)")
    wait_until(lambda: ended(child))

    assert "ended by SIGKILL; it wrote nothing to" in str(child.death())


def test_the_log_of_an_earlier_start_is_not_shown(start: Start) -> None:
    first = start("print('earlier')")
    wait_until(lambda: ended(first))
    second = start("print('now')")
    wait_until(lambda: ended(second))

    assert second.log_tail() == ["now"]


def test_a_child_that_hears_sigterm_ends_with_its_own_code(start: Start) -> None:
    child = start(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready')\n"
        "while True: signal.pause()"
    )
    wait_until(lambda: child.log_tail() == ["ready"])

    child.pause()  # one that is paused is woken to hear it
    child.ask_to_stop()

    assert child.wait_stopped() == 7


def test_a_child_is_killed(start: Start) -> None:
    child = start("import signal\nsignal.pause()")

    child.kill()

    assert child.exit_code == -signal.SIGKILL
    child.kill()  # twice is fine


@pytest.mark.parametrize("use", [ended, Child.ask_to_stop, Child.kill, Child.wait_stopped])
def test_an_interrupt_in_any_call_leaves_the_child_to_be_stopped(
    use: Callable[[Child], object], start: Start
) -> None:
    """``Popen`` loses a lock when it is interrupted there, and then never sees the end."""
    child = start("import sys\nsys.stdin.read()")
    process = child._process
    process._waitpid_lock = InterruptedLock(process._waitpid_lock)  # type: ignore[attr-defined]

    if use is Child.wait_stopped:
        os.kill(child.pid, signal.SIGTERM)

    with raising_handlers(), pytest.raises(KeyboardInterrupt):
        use(child)

    child.kill()
    assert ended(child)


def test_a_child_that_even_the_kernel_does_not_end_is_named(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start("import sys\nsys.stdin.read()")
    with monkeypatch.context() as patched:
        patched.setattr(child_module, "STOP_TIMEOUT_S", 0.01)
        patched.setattr(child, "_signal", lambda _number: None)
        with pytest.raises(BookieError, match=rf"the child, pid {child.pid}, has not ended 0.01 s"):
            child.wait_stopped()
    assert not ended(child)


def test_a_paused_child_does_not_run(start: Start) -> None:
    child = start("import sys\nsys.stdin.read()")

    child.pause()
    wait_until(lambda: state(child.pid) == "T")
    child.resume()
    wait_until(lambda: state(child.pid) != "T")


def test_a_child_sees_the_end_of_its_parent(start: Start) -> None:
    middle = start(
        "import sys\n"
        "from pathlib import Path\n"
        "from zbk.cluster.child import Child\n"
        f"log = Path({str(Path(os.devnull))!r})\n"
        "program = 'import sys; sys.stdin.read()'\n"
        "child = Child('grandchild', [sys.executable, '-c', program], log)\n"
        "print(child.pid)\n"
        "sys.stdin.read()"
    )
    wait_until(lambda: bool(middle.log_tail()))
    grandchild = int(middle.log_tail()[0])
    assert state(grandchild) in "RS"

    middle.kill()

    wait_until(lambda: state(grandchild) in ("", "Z"))


def state(pid: int) -> str:
    """Return a process's state as the kernel calls it; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""
