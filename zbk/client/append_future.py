"""Futures of appends: a ``concurrent.futures.Future`` each, at a fifth of its price.

The standard future makes a lock, a condition and two lists of its own, several microseconds each
time. Those of one writer share a condition; a list of them is resolved under one hold of it; and
the lists are made when somebody asks for them. To everybody else they are standard futures:
callbacks, ``wait``, ``as_completed`` and ``asyncio.wrap_future`` work.

They can not be cancelled: an entry on its way can not be called back.
"""

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from zbk.system.clock import monotonic_s

_PENDING = "PENDING"  # states of concurrent.futures, which keeps their names to itself
_FINISHED = "FINISHED"
_LISTS = ("_waiters", "_done_callbacks")


class AppendFuture(Future[Any]):
    """A future whose condition may be shared with others.

    ``size`` is the bytes of payload that it stands for; with ``is_many`` its result is the range
    of the ids, else the one id.
    """

    __slots__ = ("is_many", "size")

    # what Future.__init__ gives to each, and to most for nothing; a test compares
    _state = _PENDING
    _result = None
    _exception = None

    def __init__(
        self, condition: threading.Condition | None = None, size: int = 0, *, is_many: bool = False
    ) -> None:
        self._condition = condition or threading.Condition()
        self.size = size
        self.is_many = is_many

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of Future, some is not in its types
        if name in _LISTS:
            return self.__dict__.setdefault(name, [])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def cancel(self) -> bool:
        """Return False."""
        return False

    def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - as Future has it
        """Return the result, or raise the error, once there is one; ``timeout`` in seconds."""
        if self._state != _FINISHED:
            self._wait(timeout)
        if self._state != _FINISHED or self._exception is not None:
            return super().result(0)
        return self._result  # a finished future does not change: no lock is needed

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error, or ``None`` for a result, once there is one."""
        if self._state != _FINISHED:
            self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """Wait; the condition is notified for others, too."""
        with self._condition:
            if timeout is None:
                while self._state != _FINISHED:
                    self._condition.wait()
                return
            deadline_s = monotonic_s() + timeout
            while self._state != _FINISHED:
                left_s = deadline_s - monotonic_s()
                if left_s <= 0 or not self._condition.wait(left_s):
                    return

    def _finish(self, result: object) -> bool:
        """Take the result, with the condition held; tell whether there are callbacks to call."""
        assert self._state == _PENDING, "an append is answered once"
        own = self.__dict__
        own["_result"] = result
        own["_state"] = _FINISHED
        for waiter in own.get("_waiters", ()):
            waiter.add_result(self)
        return "_done_callbacks" in own


def resolve_all(
    condition: threading.Condition, results: Iterable[tuple[AppendFuture, object]]
) -> None:
    """Give futures that share ``condition`` their results, in order."""
    with condition:
        waiting = [future for future, result in results if future._finish(result)]  # noqa: SLF001
        if condition._waiters:  # type: ignore[attr-defined]  # noqa: SLF001 - a call costs more
            condition.notify_all()
    for future in waiting:  # callbacks are not called with the lock held
        future._invoke_callbacks()  # noqa: SLF001 - as set_result does
