"""Errors as whoever runs a job sees them: a line, and an exit code; the codes of ``zbk``.

    0    done
    1    the call was wrong, or what was compared differs
    2    usage
    3    the cluster did not answer, or not in time
    4    damaged data
    5    not durable, or changed by somebody else first
    6    a bookie cannot go on
    70   Spark could not do it
    130  interrupted

Of what a data source raises in a process of its own, Spark hands on the text only, in the middle of
a traceback. So here, and nowhere else, an error is known by its text.
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
    """Return whether an error is told in a line; others are bugs and keep their traceback."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, zbk.ZbkError | OSError | PySparkException | Py4JError)


def plain(error: Exception) -> tuple[str, int]:
    """Return what an error says without the way it came, and the exit code that stands for it."""
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
