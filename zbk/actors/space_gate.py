"""Whether a bookie lets ordinary adds in: one flag that every thread may read.

Whoever finds no space shuts the gate at once, in whatever thread, so that nothing more is admitted;
the disk monitor hears of it, and only it opens the gate again (``zbk.actors.upkeep.disk_monitor``).

Source: BookKeeper's ``BookieStateManager``.
"""

from collections.abc import Callable

from zbk.errors import BookieReadOnlyError


class SpaceGate:
    """The gate of one bookie; open at first."""

    def __init__(self, bookie_id: str) -> None:
        self._bookie_id = bookie_id
        self._tell: Callable[[str], None] | None = None
        self._untold_path: str | None = None
        self.is_readonly = False  # set by the disk monitor

    def met_no_space(self, path: str) -> None:
        """Shut the gate: a write to ``path`` found no space."""
        self.is_readonly = True
        if self._tell is None:
            self._untold_path = path
        else:
            self._tell(path)

    def watch(self, tell: Callable[[str], None]) -> None:
        """Report to ``tell`` writes that find no space, and one that did already."""
        self._tell = tell
        if self._untold_path is not None:
            tell(self._untold_path)

    def refusal(self) -> BookieReadOnlyError:
        """Return what a refused add is told."""
        return BookieReadOnlyError(self._bookie_id)
