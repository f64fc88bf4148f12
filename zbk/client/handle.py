"""Handles that applications close, or use as context managers."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Handle(ABC):
    """A handle whose ``with`` block closes it."""

    @abstractmethod
    def close(self) -> None:
        """Close the handle. Closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def close_after(close: Callable[[], object], error: BaseException | None, name: str) -> None:
    """Close at the end of a ``with`` block; the block's own ``error`` stays the one to raise.

    An error of the close becomes a note on it. ``name`` says what is closed.
    """
    if error is None:
        close()
        return
    try:
        close()
    except Exception as failure:  # noqa: BLE001 - the block's own error is the one to raise
        if failure is not error:
            error.add_note(f"zbk: closing {name} failed too: {failure}")
