"""Running the command line in this process."""

from typing import Protocol

from click.testing import Result


class Run(Protocol):
    """The fixture ``run``: one ``zbk`` command line."""

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Result:
        """Return what it printed, and its exit code."""
        ...
