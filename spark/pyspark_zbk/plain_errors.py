"""Errors of zbk as users see them: the text, without tracebacks.

Spark shows a traceback from its own process for each error that a data source raises. The text of
zbk's errors is complete: the option, the address, the next step.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import zbk

P = ParamSpec("P")
T = TypeVar("T")


def told_plainly(function: Callable[P, T]) -> Callable[P, T]:
    """Raise errors of zbk from a function without their frames and causes."""

    @wraps(function)
    def plain(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except zbk.ZbkError as error:
            raise error.with_traceback(None) from None

    return plain
