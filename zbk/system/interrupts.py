"""What an interrupt may not cut in two.

Python runs the handlers of signals in the main thread, between any two of its steps: also after a
lock is acquired, and before the ``try`` that releases it. A handler that raises
``KeyboardInterrupt`` there leaves the lock held. The standard library has such a place in
``subprocess.Popen.poll``; after an interrupt in it, the process never seems to end. (A block
``with lock`` has none.)
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Delay the signals that end a process to the end of the block.

    Does nothing in other threads than the main one, which run no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    late: list[int] = []
    try:
        with ExitStack() as former:
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if handler is not None:  # else Python has not set it, and cannot set it again
                    former.callback(signal.signal, number, handler)
                    signal.signal(number, lambda arrived, _: late.append(arrived))
            yield
    finally:
        if late:
            signal.raise_signal(late[0])


@contextmanager
def held(lock: "threading.RLock", timeout_s: float) -> Iterator[bool]:
    """Yield whether the lock was acquired within ``timeout_s``; release it in any case.

    The caller does not hold it before.
    """
    try:
        yield lock.acquire(timeout=timeout_s)
    finally:
        with suppress(RuntimeError):  # it was not acquired
            lock.release()
