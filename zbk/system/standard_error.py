"""Where standard error goes, for this process and those that it starts."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STANDARD_ERROR = 2  # file descriptor


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Append standard error to a file for a while; children started meanwhile keep it there."""
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
