"""One failed write or fsync ends everything: the switch that all files of a bookie share.

After a failed fsync Linux marks the pages clean and reports once; a second fsync would say OK over
bytes that are not on disk. So the first failure is kept, and every later write or promise of the
same storage is refused with it. Reads go on. Any thread may call.

Want of space is another matter, as long as it is a write that fails and not an fsync: whoever wrote
knows that nothing behind the place was promised, and writes there again, or elsewhere. It is told
to whoever has to make the bookie read-only, and raised as ``NoSpaceError``; a caller that does not
know how to go on lets it pass, and the bookie stops.

Source: "Can Applications Recover from fsync Failures?" (Rebello et al., ATC 2020).
"""

from collections.abc import Callable

from zbk.errors import NoSpaceError, StorageFailedError
from zbk.system.files import is_no_space


class FailStop:
    """Remembers the first failure.

    ``on_no_space`` is called with the path of each write that found no space, in its thread.
    """

    def __init__(self, on_no_space: Callable[[str], None] = lambda _path: None) -> None:
        self._on_no_space = on_no_space
        self._failure: StorageFailedError | None = None

    @property
    def has_failed(self) -> bool:
        """True when nothing may be promised any more."""
        return self._failure is not None

    def check(self) -> None:
        """Go on only if nothing failed yet.

        Raises:
            StorageFailedError: as the first failure said.
        """
        if self._failure is not None:
            raise StorageFailedError(*self._failure.args)

    def met_no_space(self, path: str) -> None:
        """Report that a write found no space, though whoever wrote can do with less."""
        self._on_no_space(path)

    def failed(self, path: str, operation: str, error: OSError) -> StorageFailedError:
        """Keep a failure, unless it is mere want of space, and return the error to raise."""
        if is_no_space(error):
            self._on_no_space(path)
            return NoSpaceError(path, operation, str(error))
        failure = StorageFailedError(path, operation, str(error))
        if self._failure is None:
            self._failure = failure
        return failure
