"""Checkpoints and starts that do not fit the log, without Spark and without a cluster."""

from types import SimpleNamespace
from typing import Any, ClassVar, Self, cast

import pytest

import zbk
from pyspark_zbk.log_follower import LogFollower
from pyspark_zbk.log_options import log_options
from pyspark_zbk.log_rows import EntryRange, LogPartition
from pyspark_zbk.options import Options
from pyspark_zbk.stream_reader import plan
from zbk.protocol.log.metadata import LogMetadata

At = zbk.LogPosition


class FakeReader:
    """A closed ledger whose entries have one byte."""

    def __init__(self, entry_count: int) -> None:
        self.metadata = SimpleNamespace(last_entry_id=entry_count - 1, length=entry_count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def learn(self, *_: object) -> None:
        return None

    def read(self, first: int, _last: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(length=first + 1)]


class FakeClient:
    """The client of a log with two ledgers."""

    entry_counts: ClassVar[dict[int, int]] = {7: 400, 9: 10}

    def get_log_metadata(self, name: str) -> LogMetadata:
        return LogMetadata(name=name, log_id="id", created_ms=0, ledger_ids=(7, 9))

    def open_ledger(self, ledger_id: int, _password: bytes) -> FakeReader:
        return FakeReader(self.entry_counts[ledger_id])


def planned(start: zbk.LogPosition, **options: str) -> list[EntryRange]:
    follower = LogFollower(cast("Any", FakeClient()), "orders", b"")
    wanted = log_options(Options({"log": "orders", **options}), is_stream=True)
    parts = plan(follower, start, At(9, 10), wanted)
    return [one for part in parts if isinstance(part, LogPartition) for one in part.ranges]


def test_a_position_after_the_end_of_a_closed_ledger_is_an_error() -> None:
    """Entries that a checkpoint has counted as read are gone: those after them may be missed."""
    with pytest.raises(zbk.InvalidOptionError, match="ledger 7 has only 400 entries") as caught:
        planned(At(7, 401))
    assert "failOnDataLoss" in caught.value.__notes__[0]


def test_a_query_that_may_lose_goes_on_after_the_end_of_a_closed_ledger() -> None:
    assert planned(At(7, 401), failOnDataLoss="false") == [EntryRange(9, 0, 9)]


def test_a_position_at_the_end_of_a_closed_ledger_is_followed_by_the_next_ledger() -> None:
    assert planned(At(7, 400)) == [EntryRange(9, 0, 9)]
    assert planned(At(7, 399)) == [EntryRange(7, 399, 399), EntryRange(9, 0, 9)]
