"""The input of ``zbk demo spark``: the lines of Python's own library, or given files."""

import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_zbk.inputs import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LibraryLines:
    """Every line of every ``.py`` file of Python's standard library: path, number and text.

    Or of the first so many of these files.
    """

    def __init__(self, path_count: int | None = None) -> None:
        root = Path(sysconfig.get_path("stdlib"))
        foreign = {"site-packages", "dist-packages"}
        paths = (
            path for path in root.rglob("*.py") if not foreign & {*path.relative_to(root).parts}
        )
        self._paths = sorted(map(str, paths))[:path_count]

    @property
    def description(self) -> str:
        """The number of files, and the version of Python."""
        version = sysconfig.get_python_version()
        return f"every line of the {len(self._paths):,} files of Python {version}'s library"

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the lines; one task reads a whole file, so that its lines can be numbered."""
        from pyspark.sql import functions as sf

        files = spark.read.text(self._paths, wholetext=True)
        path = sf.regexp_replace("_metadata.file_path", "^file:/+", "/").alias("path")
        lines = sf.split(sf.regexp_replace("value", r"\n\z", ""), r"\n")
        numbered = files.select(path, sf.posexplode(lines).alias("position", "text"))
        line = (sf.col("position") + 1).alias("line")
        return numbered.select("path", line, "text")


class Files:
    """Files of a format that Spark reads."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def description(self) -> str:
        """Their path and their format."""
        return f"{self._source.path} ({self._source.format})"

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the frame that Spark reads from them."""
        return self._source.frame(spark)
