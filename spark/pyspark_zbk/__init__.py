"""zbk for Spark: ``spark.read.format("zbk")`` and ``df.write.format("zbk")``.

Spark finds this package by its name if it is installed as a wheel; otherwise register it:

    import pyspark_zbk
    pyspark_zbk.register(spark)

    df.write.format("zbk").option("metadata", "zk://host:2181/zbk").mode("append").save("events")
    spark.read.format("zbk").option("metadata", "zk://host:2181/zbk").load("events")

Spark imports every ``pyspark_*`` package in the process that plans a query, used or not: importing
this one is cheap, starts no thread and opens nothing.
"""

from typing import TYPE_CHECKING

from pyspark_zbk.source import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DefaultSource", "register"]


def register(spark: "SparkSession") -> None:
    """Register format ``zbk`` in a session, if it is not registered yet."""
    from pyspark.errors import AnalysisException

    if _is_known(spark):  # Spark would replace the old one with a warning
        return
    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _is_known(spark: "SparkSession") -> bool:
    """Return whether Spark reports the format as registered; false if it cannot be asked."""
    from py4j.protocol import Py4JError

    session = getattr(spark, "_jsparkSession", None)  # not with Spark Connect
    if session is None:
        return False
    try:
        manager = session.sessionState().dataSourceManager()
        return bool(manager.dataSourceExists(DefaultSource.name()))
    except Py4JError:  # another version of Spark
        return False
