"""The story of `zbk demo spark`, on a small input."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_zbk import demo
from pyspark_zbk.demo import tell
from pyspark_zbk.demo_input import LibraryLines
from pyspark_zbk.demo_steps import (
    ClusterStarted,
    Compared,
    Dropped,
    FrameRead,
    LeftoverCollected,
    Loaded,
    LookedMeanwhile,
    SparkStarted,
    Step,
    Timed,
    difference_of,
)
from tests.support.cluster import QUICK
from zbk.cluster.local import LocalCluster

PARTITION_COUNT = 3
ROW_COUNT = 150_000  # so many that partition 0 has more batches than the failing attempt passes on


class Numbers:
    """Rows enough, made by Spark."""

    description = "numbers"

    def frame(self, spark: SparkSession) -> DataFrame:
        return spark.range(0, ROW_COUNT, 1, PARTITION_COUNT).selectExpr(
            "id", "cast(id as string) text"
        )


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Step]]:
    """The whole story, told once."""

    @contextmanager
    def same_session() -> Iterator[SparkSession]:
        yield spark

    folder = tmp_path_factory.mktemp("demo")
    cluster = LocalCluster(folder / "cluster", bookie_options=QUICK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "LEDGER_WAIT_S", 9.0)  # there will be one, but it may take its time
        yield list(tell(Numbers(), cluster, folder, same_session))


def test_the_story_has_all_its_steps_and_nothing_differs(story: list[Step]) -> None:
    assert [type(step) for step in story] == [
        ClusterStarted, SparkStarted, FrameRead, LookedMeanwhile, Loaded, Compared,
        LeftoverCollected, Timed, Timed, Loaded, Compared, Compared, Dropped,
    ]  # fmt: skip
    assert [difference_of(step) for step in story if difference_of(step)] == []


def test_an_attempt_had_written_while_nothing_was_visible(story: list[Step]) -> None:
    looked = next(step for step in story if isinstance(step, LookedMeanwhile))

    assert (0, 0, "OPEN") in [(one.partition, one.attempt, one.state) for one in looked.ledgers]
    assert "no version" in looked.refusal


def test_the_failed_attempt_is_in_no_version_and_is_collected(story: list[Step]) -> None:
    loaded = next(step for step in story if isinstance(step, Loaded))
    collected = next(step for step in story if isinstance(step, LeftoverCollected))

    assert (loaded.version, loaded.row_count, loaded.ledger_count) == (
        1,
        ROW_COUNT,
        PARTITION_COUNT,
    )
    assert [(one.partition, one.attempt) for one in loaded.leftover] == [(0, 0)]
    assert collected.leftover == loaded.leftover
    assert collected.deleted_count == 1


def test_every_comparison_is_of_aggregates_and_of_all_rows(story: list[Step]) -> None:
    first, after, before = [step for step in story if isinstance(step, Compared)]
    wanted = next(step for step in story if isinstance(step, FrameRead))

    assert first.hash == before.hash == wanted.hash != after.hash
    assert first.aggregates["sum(id)"] == str(sum(range(ROW_COUNT)))
    assert 0 < after.row_count < ROW_COUNT == before.row_count


def test_vd_and_pd_are_timed_on_the_same_small_entries(story: list[Step]) -> None:
    timed = [step for step in story if isinstance(step, Timed)]

    assert {step.ledger_type for step in timed} == {"PD_JOURNAL", "VD_BYPASS_JOURNAL"}
    assert {(step.row_count, step.entry_count) for step in timed} == {
        (ROW_COUNT, timed[0].entry_count)
    }
    assert timed[0].entry_count > ROW_COUNT / 10_000


def test_lines_of_the_library_have_their_path_and_number(spark: SparkSession) -> None:
    frame = LibraryLines(path_count=20).frame(spark)
    found = {(row["path"], row["line"]): row["text"] for row in frame.collect()}
    path = min(path for path, _ in found)
    lines = Path(path).read_text("utf-8").removesuffix("\n").split("\n")

    assert [found[path, number] for number in range(1, len(lines) + 1)] == lines
