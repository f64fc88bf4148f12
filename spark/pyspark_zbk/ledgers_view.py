"""``option("view", "ledgers")``: the ledgers of a version, one row each, from metadata alone.

Row counts and sizes without a payload:

    ledgers = spark.read.format("zbk").option("view", "ledgers").load("events")
    ledgers.selectExpr("sum(row_count)")

    column       type    meaning
    -----------  ------  ---------------------------------------------
    ledger_id    bigint
    row_count    bigint
    entry_count  bigint  with the schema in entry 0
    size         bigint  bytes of payload
    load_id      string  the load that wrote it
    partition    int     of that load's input
    attempt      int     of that partition
"""

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import zbk
from pyspark_zbk.options import Options
from pyspark_zbk.schemas import check_readable

VIEW_SCHEMA: Final = StructType(
    [
        StructField("ledger_id", LongType()),
        StructField("row_count", LongType()),
        StructField("entry_count", LongType()),
        StructField("size", LongType()),
        StructField("load_id", StringType()),
        StructField("partition", IntegerType()),
        StructField("attempt", IntegerType()),
    ]
)

NOT_FOR_VIEWS: Final = ("pushFilters", "maxPartitionBytes")


def is_ledgers_view(options: Options) -> bool:
    """Return whether the ledgers are wanted instead of their rows.

    Raises:
        InvalidOptionError: there is no such view, or another option does not apply to it.
    """
    if "view" not in options:
        return False
    view = options.text("view")
    if view.lower() != "ledgers":
        raise zbk.InvalidOptionError("view", view, "the only view is 'ledgers'")
    for name in NOT_FOR_VIEWS:
        if name in options:
            raise zbk.InvalidOptionError(name, options.text(name), "says nothing about a view")
    return True


class LedgersPartition(InputPartition):
    """All rows, which are known when the query is planned."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        super().__init__(None)
        self.rows = rows


class LedgersReader(DataSourceReader):
    """Reads the ledgers of one version."""

    def __init__(self, snapshot: zbk.Snapshot, schema: StructType) -> None:
        check_readable(schema, VIEW_SCHEMA)
        self._rows = [
            tuple(getattr(ledger, name) for name in schema.names) for ledger in snapshot.ledgers
        ]

    def partitions(self) -> list[LedgersPartition]:
        """Return the partition of the only task."""
        return [LedgersPartition(self._rows)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the rows."""
        assert isinstance(partition, LedgersPartition), "as planned"
        return iter(partition.rows)

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": []}  # a task has its rows in the partition
