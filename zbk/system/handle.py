"""Handles that are closed, or used as context managers."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Handle(ABC):
    """A handle whose ``with`` block closes it."""

    @abstractmethod
    def close(self) -> object:
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


class WritingHandle(Handle):
    """A handle whose close may fail. The error of a ``with`` block stays the one to raise.

    An error of the close becomes a note on it.
    """

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception as failure:
            if exc is None:
                raise
            if failure is not exc:
                exc.add_note(f"zbk: closing {self._what} failed too: {failure}")

    @property
    @abstractmethod
    def _what(self) -> str:
        """The name of what is closed, for the note."""
