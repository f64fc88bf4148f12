"""How storage reacts to a failed call of the file system.

    ``FailStop.guard``  a write or fsync: the first failure ends all writing and every promise
    ``as_damage``       a read of one place: an error that says neither yes nor no about its content
    ``as_failed_read``  a read without which a task cannot continue: its caller stops

After a failed fsync Linux marks the pages clean and reports the failure once; a second fsync would
succeed over bytes that are not on disk. So ``FailStop`` keeps the first failure, and every later
write or promise of the same storage is refused with it. Reads continue.

Lack of space is different, if a write reports it and not an fsync: nothing after that place was
promised, so the writer may write there again, or elsewhere. The error is ``NoSpaceError``, and a
callback makes the bookie read-only. A caller that cannot go on lets the error pass, and the bookie
stops.

``OutOfDescriptorsError`` is no ``OSError`` and passes every guard unchanged: it says nothing about
the file, and the caller answers that the bookie is busy.

Threads: any.

Source: "Can Applications Recover from fsync Failures?" (Rebello et al., ATC 2020).
"""

from collections.abc import Callable

from zbk.errors import CorruptRecordError, NoSpaceError, StorageFailedError
from zbk.system.files import is_no_space


class FailStop:
    """Keeps the first failure of a bookie's storage.

    ``on_no_space`` is called with the path of each write that found no space, in its thread.
    """

    def __init__(self, on_no_space: Callable[[str], None] = lambda _path: None) -> None:
        self._on_no_space = on_no_space
        self._failure: StorageFailedError | None = None

    @property
    def has_failed(self) -> bool:
        """True after a failure: nothing may be promised any more."""
        return self._failure is not None

    def check(self) -> None:
        """Return only if nothing has failed.

        Raises:
            StorageFailedError: the first failure.
        """
        if self._failure is not None:
            raise StorageFailedError(*self._failure.args)

    def guard(self, path: str, operation: str) -> "_Guard":
        """Return a context in which an ``OSError`` is a failure of this storage.

        Raises:
            NoSpaceError: in the context, a write found no space; the storage continues.
            StorageFailedError: in the context, anything else failed; the storage stops.
        """
        return _Guard(self, path, operation)

    def met_no_space(self, path: str) -> None:
        """Report a write that found no space, although its caller can use less."""
        self._on_no_space(path)

    def failed(self, path: str, operation: str, error: OSError) -> StorageFailedError:
        """Keep a failure, unless it is lack of space, and return the error to raise."""
        if is_no_space(error):
            self._on_no_space(path)
            return NoSpaceError(path, operation, str(error))
        failure = StorageFailedError(path, operation, str(error))
        if self._failure is None:
            self._failure = failure
        return failure


class _Guard:
    """``FailStop.guard``; a class, as those below: a third as expensive as a generator."""

    __slots__ = ("_fail_stop", "_operation", "_path")

    def __init__(self, fail_stop: FailStop, path: str, operation: str) -> None:
        self._fail_stop = fail_stop
        self._path = path
        self._operation = operation

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError):
            raise self._fail_stop.failed(self._path, self._operation, error) from error


class as_damage:  # noqa: N801 - a context, called like a function
    """Enter a context in which an ``OSError`` means that a place cannot be read.

    Raises:
        CorruptRecordError: in the context, a read failed.
    """

    __slots__ = ("_offset", "_path")

    def __init__(self, path: str, offset: int = 0) -> None:
        self._path = path
        self._offset = offset

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError):
            text = f"cannot be read: {error}"
            raise CorruptRecordError(self._path, self._offset, text) from error


class as_failed_read:  # noqa: N801 - as the one above
    """Enter a context in which an ``OSError`` ends the task of the caller, but no writing.

    Raises:
        StorageFailedError: in the context, a read failed.
    """

    __slots__ = ("_operation", "_path")

    def __init__(self, path: str, operation: str) -> None:
        self._path = path
        self._operation = operation

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError):
            raise StorageFailedError(self._path, self._operation, str(error)) from error
