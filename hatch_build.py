"""How the README becomes the text of the package: hatchling runs this for every build.

A package index shows the README alone: links to the files beside it would lead nowhere there. They
become plain names, and pictures go; the files are in the source distribution.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]+\)\n*")
_BESIDE = re.compile(r"\[([^\]]+)\]\((?!https?:|#)[^)]+\)")


class ReadmeHook(MetadataHookInterface):
    """Fills in ``readme``."""

    PLUGIN_NAME = "readme"

    def update(self, metadata: dict[str, object]) -> None:
        """Set the readme to one without links to files."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _BESIDE.sub(r"\1", _PICTURE.sub("", text)),
        }
