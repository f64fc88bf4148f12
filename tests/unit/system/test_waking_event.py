import subprocess
import sys
import threading

import pytest

from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.system.waking_event import WakingEvent

PROGRAM = """
import signal, sys, threading
from zbk.system.waking_event import WakingEvent

event = WakingEvent()
signal.signal(signal.SIGTERM, lambda *_: event.set())

def signal_this_thread():
    main = threading.main_thread().native_id
    while open(f"/proc/self/task/{main}/stat").read().rpartition(")")[2].split()[0] != "S":
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

def set_from_here():
    event.set()

threading.Thread(target=eval(sys.argv[1])).start()
print(event.wait(), event.wait(), signal.set_wakeup_fd(-1))
"""


@pytest.mark.parametrize("name", ["signal_this_thread", "set_from_here"])
def test_the_main_thread_hears_signals_of_other_threads(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name],
        capture_output=True, text=True, timeout=patient_s(20), check=True,
    )  # fmt: skip
    assert done.stdout == "True True -1\n", "and the file descriptor of signals is as before"


def test_elsewhere_it_is_an_ordinary_event() -> None:
    event = WakingEvent()
    assert not event.wait(0)
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(event.wait()))
    waiting.start()
    event.set()
    wait_until(lambda: found == [True])
    waiting.join()
    assert event.wait(5)
