"""Redirection of standard error, for this process and its children."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STANDARD_ERROR = 2  # file descriptor


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Append standard error to a file during the block; children started meanwhile keep it."""
    sys.stderr.flush()
    saved = os.dup(_STANDARD_ERROR)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), _STANDARD_ERROR)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, _STANDARD_ERROR)
        os.close(saved)
