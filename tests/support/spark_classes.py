"""An archive of Spark's classes, for the many short Javas of tests.

    python -m tests.support.spark_classes

A Java that finds it starts in half of the time. It lies in the virtual environment, is made once,
and is ignored by another Java, or by one with other classes. See "Class Data Sharing" in java(1).
"""

import sys
from pathlib import Path
from typing import Final

PATH: Final = Path(sys.prefix) / "share" / "zbk-tests" / "spark.jsa"
EXIT_TIMEOUT_S: Final = 300
"""The archive is written while Java ends: five seconds on a quiet core."""


def options() -> str:
    """Return the options with which Java uses the archive, if it is there."""
    return f" -Xlog:disable -XX:SharedArchiveFile={PATH}" if PATH.exists() else ""


def main() -> None:
    """Make the archive: of all classes that a session loads until it ends."""
    PATH.unlink(missing_ok=True)  # no Java makes an archive while it uses another one
    from pyspark_zbk import session  # noqa: PLC0415 - only where the archive is made
    from tests.support.spark import QUICK_JAVA, QUICK_SETTINGS  # noqa: PLC0415 - which imports this

    PATH.parent.mkdir(parents=True, exist_ok=True)
    made = PATH.with_suffix(".made")  # nobody may find half of it
    dump = f"{QUICK_JAVA} -Xlog:disable -XX:ArchiveClassesAtExit={made}"
    settings = {"spark.driver.extraJavaOptions": dump, **QUICK_SETTINGS}
    with session.start("classes", master="local[2]", settings=settings, log_level="OFF") as spark:
        frame = spark.createDataFrame([(1, "a"), (2, "b")], "number long, text string")
        assert frame.groupBy("text").count().filter("count > 0").count() == 2
        gateway = spark.sparkContext._gateway
        assert gateway is not None, "the session runs"
    java = gateway.proc
    java.stdin.close()  # it ends then
    java.wait(EXIT_TIMEOUT_S)
    made.rename(PATH)


if __name__ == "__main__":
    main()
