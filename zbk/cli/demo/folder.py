"""Where a demo has its cluster while it lasts."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zbk.cli.output import note


@contextmanager
def demo_folder(prefix: str) -> Iterator[Path]:
    """Yield a temporary folder; it stays where the cluster went wrong, for a look at the logs."""
    from zbk.errors import CallerError

    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    except (KeyboardInterrupt, CallerError):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except BaseException:
        note(f"zbk: data and logs are kept in {folder}")
        raise
    shutil.rmtree(folder, ignore_errors=True)
