"""Files as frames: the input of ``bulk_load``, of ``verify`` and of the demo.

CSV, JSON lines, Parquet and text, read by Spark's own readers; a path may be anything that these
accept (a file, a folder, a pattern, ``s3a://...``). Without a format, the names of files decide: of
the file, or of the files in a local folder.
"""

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

import zbk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS: Final = ("csv", "json", "parquet", "text")
LOOK_COUNT_MAX: Final = 10_000
"""Files of a folder whose names are examined for its format."""

_FORMAT_BY_SUFFIX: Final = {
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
_PACKED: Final = frozenset((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate"))
_PATTERN: Final = frozenset("*?[{")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Files, and the way to read them.

    CSV is read with a header, and with types inferred from its values, unless ``options`` differ.
    """

    path: str = ""
    format: str = ""  # of ``FORMATS``; empty: by the names of files
    schema: str = ""  # as DDL; empty: what the reader finds
    options: Mapping[str, str] = {}  # the reader's

    def at(self, path: str, *, is_here: bool = False) -> "Source":
        """Return other files with their format, to be read in the same way.

        ``is_here``: a path without a scheme is one of this machine, and not of a cluster's store.

        Raises:
            InvalidOptionError: there are no such files here, or their names give no format.
        """
        if is_here:
            _check_there(path)
        return msgspec.structs.replace(self, path=path, format=self.format or format_of(path))

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the frame, which Spark reads lazily.

        Raises:
            InvalidOptionError: as ``at``.
        """
        this = self.at(self.path)
        reader = spark.read.format(this.format).options(**_reader_options(this))
        if this.schema:
            reader = reader.schema(this.schema)
        return reader.load(this.path)


def format_of(path: str) -> str:
    """Return the format that the names of files give.

    Raises:
        InvalidOptionError: there are no such files here, or their names give no format.
    """
    known = _FORMAT_BY_SUFFIX.get(_plain_suffix(path))
    if known:
        return known
    if "://" in path or _PATTERN & set(path):
        raise zbk.InvalidOptionError(
            "input", path, f"its name does not tell the format: give one of {', '.join(FORMATS)}"
        )
    _check_there(path)
    if not Path(path).is_dir():
        return "text"
    found = {_FORMAT_BY_SUFFIX.get(_plain_suffix(name), "text") for name in _names(path)}
    if not found:
        raise zbk.InvalidOptionError("input", path, "the folder holds no files")
    if len(found) > 1:
        kinds = ", ".join(sorted(found))
        raise zbk.InvalidOptionError(
            "input", path, f"holds files of several formats ({kinds}): give the one to be read"
        )
    return found.pop()


def _check_there(path: str) -> None:
    """Refuse a missing file before Spark is started."""
    if "://" in path or _PATTERN & set(path) or Path(path).exists():
        return
    raise zbk.InvalidOptionError("input", path, "there is no such file or folder")


def _reader_options(source: Source) -> dict[str, str]:
    options = {}
    if source.format == "csv":
        options["header"] = "true"
        if not source.schema:
            options["inferSchema"] = "true"
        if _plain_suffix(source.path) == ".tsv":
            options["sep"] = "\t"
    return options | dict(source.options)


def _plain_suffix(path: str) -> str:
    """Return the ending of a name for its content, without the ending for its compression."""
    stem, suffix = os.path.splitext(path.rstrip("/").lower())  # noqa: PTH122 - may be a URL
    return os.path.splitext(stem)[1] if suffix in _PACKED else suffix  # noqa: PTH122


def _names(folder: str) -> Iterator[str]:
    """Yield the names of files that Spark reads, without hidden files and markers."""
    names = (name for _, _, files in os.walk(folder) for name in files)
    return islice((name for name in names if name[0] not in "._"), LOOK_COUNT_MAX)
