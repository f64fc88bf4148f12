"""One failed write or fsync ends everything: the switch that all files of a bookie share.

After a failed fsync Linux marks the pages clean and reports once; a second fsync would say OK over
bytes that are not on disk. So the first failure is kept, and every later write or promise of the
same storage is refused with it. Reads go on. Any thread may call.

Source: "Can Applications Recover from fsync Failures?" (Rebello et al., ATC 2020).
"""

from zbk.errors import StorageFailedError


class FailStop:
    """Remembers the first failure."""

    def __init__(self) -> None:
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

    def failed(self, path: str, operation: str, error: OSError) -> StorageFailedError:
        """Keep a failure, and return the error to raise."""
        failure = StorageFailedError(path, operation, str(error))
        if self._failure is None:
            self._failure = failure
        return failure
