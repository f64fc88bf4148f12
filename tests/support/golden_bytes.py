"""Golden bytes of formats: a file a format and version, a line a sample: name, then hex.

A changed format needs a new version and a new file; the old file stays, for the reader of the old
version.
"""

from pathlib import Path

GOLDEN_PATH = Path(__file__).parents[1] / "golden" / "storage"


def golden_bytes(file_name: str) -> dict[str, bytes]:
    """Return the samples by name."""
    lines = (GOLDEN_PATH / file_name).read_text(encoding="ascii").splitlines()
    pairs = (line.split(": ") for line in lines if line and not line.startswith("#"))
    return {name: bytes.fromhex(text) for name, text in pairs}
