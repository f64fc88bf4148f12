"""The flag that admits ordinary adds. Any thread may read it.

What a full disk still accepts is ``zbk.storage.directory.disk_space``.

A write that finds no space closes the gate at once, in its own thread, so that nothing more is
admitted. The gate reports it to the disk monitor, which alone opens the gate again
(``zbk.actors.upkeep.disk_monitor``).

Source: BookKeeper's ``BookieStateManager``.
"""

from collections.abc import Callable

from zbk.errors import BookieReadOnlyError


class SpaceGate:
    """The gate of one bookie, open at first."""

    def __init__(self, bookie_id: str) -> None:
        self._bookie_id = bookie_id
        self._tell: Callable[[str], None] | None = None
        self._untold_path: str | None = None
        self.is_readonly = False  # set by the disk monitor
        self.is_switched_off = False  # by an operator; the disk monitor does not touch it

    @property
    def refuses_adds(self) -> bool:
        """Return whether the bookie is read-only, for either reason."""
        return self.is_readonly or self.is_switched_off

    def met_no_space(self, path: str) -> None:
        """Close the gate: a write to ``path`` found no space."""
        self.is_readonly = True
        if self._tell is None:
            self._untold_path = path
        else:
            self._tell(path)

    def watch(self, tell: Callable[[str], None]) -> None:
        """Report to ``tell`` writes that find no space, also one of before this call."""
        self._tell = tell
        if self._untold_path is not None:
            tell(self._untold_path)

    def refusal(self) -> BookieReadOnlyError:
        """Return the error of a refused add."""
        return BookieReadOnlyError(self._bookie_id)
