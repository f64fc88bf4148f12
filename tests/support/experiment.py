"""An experiment of ``benchmarks.experiments``, run as a command on a small load."""

import json
from pathlib import Path
from typing import Any

from tests.support.cluster import Shell


def run_experiment(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run an experiment with ``folder`` for its clusters, which it has to remove.

    Returns the fields of its result.
    """
    shell = Shell(folder, {"TMPDIR": str(folder)})
    done = shell.run(*arguments, "-o", "json", module="benchmarks.experiments")
    assert list(folder.glob("zbk-bench-*")) == []
    found: dict[str, Any] = json.loads(done.stdout)
    return found
