"""What a user sees of an error: zbk's own words, without the way they came.

Spark shows a traceback from its own process for whatever a data source raises. Of zbk's errors the
text says all: which option, which address, what to do next.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import zbk

P = ParamSpec("P")
T = TypeVar("T")


def told_plainly(function: Callable[P, T]) -> Callable[P, T]:
    """Raise errors of zbk from a function without the frames and errors behind them."""

    @wraps(function)
    def plain(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except zbk.ZbkError as error:
            raise error.with_traceback(None) from None

    return plain
