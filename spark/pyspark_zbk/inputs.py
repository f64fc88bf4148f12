"""Files as frames: what ``bulk_load`` loads, what ``verify`` compares with, what the demo shows.

CSV, JSON lines, Parquet and text, read by Spark's own readers; a path may be whatever these take
(a file, a folder, a pattern, ``s3a://...``). Where no format is given, names tell: of the file, or
of the files that a local folder holds.
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
"""Files of a folder that are looked at to tell its format."""

_FORMAT_BY_SUFFIX: Final = {
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
_PACKED: Final = frozenset((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate"))
_PATTERN: Final = frozenset("*?[{")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Files, and how they are read.

    CSV is read with a header, and with types as its values look, unless ``options`` say otherwise.
    """

    path: str = ""
    format: str = ""  # of ``FORMATS``; empty: by the names of files
    schema: str = ""  # as DDL; empty: what the reader finds
    options: Mapping[str, str] = {}  # the reader's

    def at(self, path: str, *, is_here: bool = False) -> "Source":
        """Return other files, read in the same way, with their format.

        ``is_here``: a path without a scheme is one of this machine, and not of a cluster's store.

        Raises:
            InvalidOptionError: there are no such files here, or their names do not tell.
        """
        if is_here:
            _check_there(path)
        return msgspec.structs.replace(self, path=path, format=self.format or format_of(path))

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the frame; Spark reads it when something is done with it.

        Raises:
            InvalidOptionError: as ``at``.
        """
        this = self.at(self.path)
        reader = spark.read.format(this.format).options(**_reader_options(this))
        if this.schema:
            reader = reader.schema(this.schema)
        return reader.load(this.path)


def format_of(path: str) -> str:
    """Return the format that names of files tell.

    Raises:
        InvalidOptionError: there are no such files here, or their names do not tell.
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
    """Refuse a file that is not there, before Spark is started to find that out."""
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
    """Return the end of a name that tells what is in the file, without that of its packing."""
    stem, suffix = os.path.splitext(path.rstrip("/").lower())  # noqa: PTH122 - may be a URL
    return os.path.splitext(stem)[1] if suffix in _PACKED else suffix  # noqa: PTH122


def _names(folder: str) -> Iterator[str]:
    """Yield names of files that Spark would read: hidden ones and marks it leaves out."""
    names = (name for _, _, files in os.walk(folder) for name in files)
    return islice((name for name in names if name[0] not in "._"), LOOK_COUNT_MAX)
