"""What the parts of a bookie's oracle need of it."""

from typing import Protocol

from tests.simulation.kernel import Kernel


class JudgedBookie(Protocol):
    """A bookie whose promises are judged."""

    kernel: Kernel
    bookie_id: str
    is_damaged: bool
    was_wiped: bool

    def violated(self, invariant: str, text: str) -> None:
        """Note a broken promise."""
        ...
