"""Documents that lie elsewhere in the repository, as pages of the handbook.

They have one text, where their readers expect them. Their links to other files would lead nowhere
here and become plain names.
"""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCUMENTS: Final = {
    "changelog.md": "CHANGELOG.md",
    "reference/spark.md": "spark/README.md",
    "explanation/benchmark-report.md": "benchmarks/README.md",
}
PICTURES: Final = "benchmarks/pictures"
_TO_FILE = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)[^)]+\)")


def copied_page(source: str) -> str:
    """Return the text of a document without links to files; pictures stay."""
    return _TO_FILE.sub(r"\1", (ROOT / source).read_text("utf-8"))
