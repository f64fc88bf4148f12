"""What is said of an error, and with which code a job ends."""

import pytest

import zbk
from pyspark_zbk.job_errors import EXIT_SPARK, plain

FROM_A_PLANNER = """[PYTHON_DATA_SOURCE_ERROR] Failed to initialize the writer: Traceback:
  File "plain_errors.py", line 25, in plain
    raise error.with_traceback(None) from None
zbk.errors.NotEnoughBookiesError: need 9 bookies, have 3: give a smaller ensembleSize
 SQLSTATE: 38000"""
FROM_A_FUNCTION = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "job.py", line 13, in <lambda>
ZeroDivisionError: integer division or modulo by zero"""
FROM_JAVA = """An error occurred while calling o47.load.
: org.apache.spark.SparkException: [CANNOT_READ_FILE_FOOTER] Could not read footer. SQLSTATE: KD001
\tat org.apache.spark.sql.Whatever(Whatever.scala:1)
Caused by: java.lang.RuntimeException: a.parquet is not a Parquet file
\t... 16 more"""


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        (FROM_A_PLANNER, "need 9 bookies, have 3: give a smaller ensembleSize", 3),
        (FROM_A_FUNCTION, "ZeroDivisionError: integer division or modulo by zero", EXIT_SPARK),
        (FROM_JAVA, "a.parquet is not a Parquet file", EXIT_SPARK),
        (
            "[TOO_LATE] The job was cancelled. SQLSTATE: XX000",
            "[TOO_LATE] The job was cancelled.",
            70,
        ),
    ],
)
def test_what_spark_says_is_told_without_the_way_it_came(text: str, said: str, code: int) -> None:
    assert plain(RuntimeError(text)) == (said, code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (zbk.NoSuchDataSetError("x"), 1),
        (zbk.MetadataUnavailableError("x", "y"), 3),
        (zbk.LogFencedError("x"), 5),
        (zbk.CannotAdvanceError(1, 2, 3, "x"), 5),
        (zbk.BadVersionError("x"), 5),
        (zbk.DigestMismatchError(1, 2), 4),
        (FileNotFoundError("x"), 1),
    ],
)
def test_codes_are_those_of_zbk(error: Exception, code: int) -> None:
    assert plain(error) == (str(error), code)
