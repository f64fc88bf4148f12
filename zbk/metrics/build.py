"""The fields of ``zbk_build_info``, and of ``/version``."""

import platform
from typing import Final

from zbk.metrics.metric import Process

VERSION: Final = "0.1.0"
"""As ``zbk.__version__``, which the layers below the public API cannot import."""


def build_fields(process: Process, version: str = VERSION) -> dict[str, str]:
    """Return the fields for a process of this kind."""
    return {"version": version, "python": platform.python_version(), "process": process}
