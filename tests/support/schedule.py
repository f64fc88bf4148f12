"""Which tests run in which of xdist's processes, and in which order.

A file is run by one process; and so are all the tests of Spark, which share a session. A session
and its cluster take ten seconds of both cores, and several at once get in each other's way for
minutes. They come first, beside tests that mostly wait; the many short ones fill what is left.
"""

from typing import Final

from xdist.scheduler import LoadFileScheduling

_ORDER: Final = ("tests/spark/", "tests/integration/", "tests/simulation/", "tests/")
_LATER: Final = "tests/integration/metadata/"
_SPARK: Final = "tests/spark"


def rank_of(node_id: str) -> int:
    """Return when a test comes, beside others: low is early."""
    if node_id.startswith(_LATER):
        return len(_ORDER)
    return next((n for n, start in enumerate(_ORDER) if node_id.startswith(start)), len(_ORDER))


def scope_of(node_id: str) -> str:
    """Return the name of what one process runs as a whole: a file, or the folder of Spark.

    >>> scope_of("tests/unit/test_docs.py::test_a"), scope_of("tests/spark/test_streams.py::test_b")
    ('tests/unit/test_docs.py', 'tests/spark')
    """
    path = node_id.partition("::")[0]
    return _SPARK if path.startswith(f"{_SPARK}/") else path


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Work for xdist's processes by ``scope_of``."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
