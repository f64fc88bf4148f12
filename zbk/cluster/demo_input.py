"""The input of ``zbk demo``: the lines of a file, or of Python's own library."""

import sysconfig
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Protocol

from zbk.cluster.load import lines
from zbk.errors import InvalidOptionError


class DemoInput(Protocol):
    """A source that yields the same payloads each time."""

    @property
    def description(self) -> str:
        """The name of the input, for people."""

    def payloads(self) -> Iterator[bytes]:
        """Yield the payloads, in order."""


class FileInput:
    """A file, one entry per line."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InvalidOptionError(
                "file", str(path), "is no regular file: the demo reads it several times"
            )
        self._path = path

    @property
    def description(self) -> str:
        """The file's name."""
        return f"every line of {self._path}"

    def payloads(self) -> Iterator[bytes]:
        """Yield the lines, without their ends."""
        with self._path.open("rb") as file:
            yield from chain.from_iterable(lines(file))


class StandardLibraryInput:
    """Every line of every ``.py`` file of Python's standard library, files in sorted order."""

    def __init__(self) -> None:
        root = Path(sysconfig.get_path("stdlib"))
        foreign = {"site-packages", "dist-packages"}
        self._paths = sorted(
            path for path in root.rglob("*.py") if not foreign & {*path.relative_to(root).parts}
        )

    @property
    def description(self) -> str:
        """The number of files, and the version of Python."""
        version = sysconfig.get_python_version()
        return f"every line of the {len(self._paths):,} files of Python {version}'s library"

    def payloads(self) -> Iterator[bytes]:
        """Yield the lines, without their ends."""
        for path in self._paths:
            with path.open("rb") as file:
                yield from chain.from_iterable(lines(file))
