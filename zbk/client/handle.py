"""Handles that applications close, or use as context managers."""

from abc import ABC, abstractmethod
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
