"""Which tests run in which of xdist's processes, and in which order.

A process runs a whole file, or all files that share a server: those of Spark share a session, which
takes ten seconds of both cores to start; others share a ZooKeeper. Long files whose tests share
nothing are given out test by test.

Tests of Spark and of real processes mostly wait; the others mostly compute. One process begins with
what computes and the others begin with what waits, so that both cores have work all the time. What
takes long comes first on either side, and many short files are left for the end.
"""

from typing import Final

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_COMPUTING_PROCESS: Final = "gw1"

_INTEGRATION: Final = "tests/integration"
_SPARK: Final = "tests/spark"
_TOGETHER: Final = {
    f"{_SPARK}/session": (
        f"{_SPARK}/test_batch",
        f"{_SPARK}/test_demo_spark.py",
        f"{_SPARK}/test_fingerprint.py",
        f"{_SPARK}/test_inputs.py",
        f"{_SPARK}/test_job",
        f"{_SPARK}/test_session.py",
        f"{_SPARK}/test_stream",
    ),
    f"{_INTEGRATION}/zookeeper": (
        f"{_INTEGRATION}/metadata/test_metadata_conformance",
        f"{_INTEGRATION}/metadata/test_zookeeper",
        f"{_INTEGRATION}/test_auditor.py",
        f"{_INTEGRATION}/test_autorecovery_zookeeper.py",
        f"{_INTEGRATION}/test_on_zookeeper.py",
    ),
}
"""What one process runs as a whole, by a name that says where it belongs."""

_ALONE: Final = (
    "tests/docs/test_pages.py",
    "tests/simulation/test_defects.py",
    "tests/simulation/test_seeds_of_the_day.py",
)
"""Files whose tests share nothing."""

_LONG_WAITING: Final = (
    f"{_SPARK}/session",
    f"{_INTEGRATION}/test_streams.py",
    f"{_INTEGRATION}/zookeeper",
    "tests/docs/test_pages.py",
    "tests/browser/",
    f"{_INTEGRATION}/test_demo.py",
    f"{_INTEGRATION}/test_failures.py",
    f"{_SPARK}/",
    f"{_INTEGRATION}/test_autorecovery.py",
    f"{_INTEGRATION}/test_repair.py",
    f"{_INTEGRATION}/test_thousand_ledgers.py",
    f"{_INTEGRATION}/test_datasets.py",
    f"{_INTEGRATION}/test_ensemble_change.py",
    f"{_INTEGRATION}/test_tail.py",
    f"{_INTEGRATION}/test_cli.py",
    f"{_INTEGRATION}/test_bench_write.py",
    f"{_INTEGRATION}/test_compaction.py",
    f"{_INTEGRATION}/test_bench_read.py",
    f"{_INTEGRATION}/test_limbo.py",
    f"{_INTEGRATION}/test_full_disk.py",
    f"{_INTEGRATION}/test_garbage_collection.py",
    f"{_INTEGRATION}/test_chaos_short.py",
    f"{_INTEGRATION}/test_soak_short.py",
    "tests/packaging/",
    "tests/security/",
    "tests/docs/",
    f"{_INTEGRATION}/",
)
"""Tests that mostly wait, those that take longest first."""

_LONG_COMPUTING: Final = (
    "tests/simulation/",
    "tests/unit/storage/test_failing_calls.py",
    "tests/unit/storage/test_full_disk.py",
    "tests/unit/storage/test_power_cuts.py",
    "tests/unit/storage/test_damage",
    "tests/unit/actors/upkeep/test_compaction_crashes.py",
    "tests/unit/storage/scrub/test_scrub_threads.py",
    "tests/unit/storage/test_several_directories_crashes.py",
    "tests/unit/storage/test_crash_points.py",
    "tests/unit/benchmarks/",
    "tests/unit/protocol/",
    "tests/",
)
"""Tests that mostly compute, those that take longest first."""


def rank_of(node_id: str) -> int:
    """Return when a test comes: low is early, and high is early for the process that computes.

    >>> sorted(["tests/unit/a.py", "tests/simulation/b.py", "tests/spark/c.py"], key=rank_of)
    ['tests/spark/c.py', 'tests/unit/a.py', 'tests/simulation/b.py']
    """
    scope = scope_of(node_id)
    for place, start in enumerate(_LONG_WAITING):
        if scope.startswith(start):
            return place
    last = len(_LONG_WAITING) + len(_LONG_COMPUTING)
    return next((last - n for n, s in enumerate(_LONG_COMPUTING) if scope.startswith(s)), last)


def scope_of(node_id: str) -> str:
    """Return the name of what one process runs as a whole.

    >>> scope_of("tests/unit/test_docs.py::test_a"), scope_of("tests/spark/test_streams.py::test_b")
    ('tests/unit/test_docs.py', 'tests/spark/session')
    >>> scope_of("tests/docs/test_pages.py::test_c[tutorial]")
    'tests/docs/test_pages.py::test_c[tutorial]'
    >>> scope_of("tests/simulation/test_seeds_chosen.py::test_d[3]")  # they are counted together
    'tests/simulation/test_seeds_chosen.py'
    """
    path = node_id.partition("::")[0]
    if path.startswith(_ALONE):
        return node_id
    return next((name for name, starts in _TOGETHER.items() if path.startswith(starts)), path)


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Work for xdist's processes by ``scope_of``, from both ends of the order."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id == _COMPUTING_PROCESS:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
