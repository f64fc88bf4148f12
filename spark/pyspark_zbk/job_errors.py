"""Errors of jobs as users see them: one line, and an exit code of ``zbk``.

    0    done
    1    the call was wrong, or the comparison found a difference
    2    usage
    3    the cluster did not answer in time
    4    damaged data
    5    not durable, or changed by another client first
    6    a bookie cannot continue
    70   Spark failed
    130  interrupted

If a data source raises an error in its own process, Spark passes on only the text, in the middle of
a traceback. So this module, and no other, identifies an error by its text.
"""

import re
from typing import Final

import zbk
from zbk import errors
from zbk.errors import EXIT_CALLER, exit_code_of

EXIT_SPARK: Final = 70

_ZBK_ERROR: Final = re.compile(r"^zbk\.errors\.(\w+): (.*)$", re.MULTILINE)
_PYTHON_ERROR: Final = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception)): (.*)$", re.MULTILINE)
_JAVA_ERROR: Final = re.compile(r"^(?:Caused by)?: (?:[\w.$]+: )?(\S.*)$", re.MULTILINE)
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\s*$")


def is_expected(error: Exception) -> bool:
    """Return whether an error is shown as one line; others are bugs and keep their traceback."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, zbk.ZbkError | OSError | PySparkException | Py4JError)


def plain(error: Exception) -> tuple[str, int]:
    """Return the text of an error without tracebacks, and its exit code."""
    from pyspark.errors import AnalysisException  # a path, a column, a schema

    if isinstance(error, zbk.ZbkError):
        return str(error), exit_code_of(type(error))
    if isinstance(error, OSError):
        return str(error), EXIT_CALLER
    text = str(error)
    ours = _ZBK_ERROR.findall(text)
    if ours:
        name, message = ours[-1]
        return _SQL_STATE.sub("", message), exit_code_of(getattr(errors, name, zbk.ZbkError))
    python = _PYTHON_ERROR.findall(text)
    if python:
        return ": ".join(python[-1]), EXIT_SPARK
    java = _JAVA_ERROR.findall(text)
    if java:  # the last one is the first cause
        return _SQL_STATE.sub("", java[-1]), EXIT_SPARK
    code = EXIT_CALLER if isinstance(error, AnalysisException) else EXIT_SPARK
    return _SQL_STATE.sub("", text.strip().partition("\n")[0]), code
