"""The least and the greatest value of each column, gathered batch by batch.

Readers skip ledgers that cannot have rows for a filter. Bounds have Spark's order of values: a
column with NaN, which Spark orders after all values, has none. Dates are stored as days and times
as microseconds since 1970, UTC (``comparable``). Long texts and binaries have no bounds: these
would cost more in the manifest than they save.
"""

from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import zbk

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN_COUNT_MAX: Final = 64
"""Limit on the columns with bounds: the first ones that can have them."""

BOUND_SIZE_MAX: Final = 64  # of a text or binary, in its characters or bytes

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class ColumnBounds:
    """The bounds of every column of one ledger."""

    def __init__(self, schema: "pa.Schema", collated: Collection[str] = ()) -> None:
        """``collated``: text columns that are not ordered by their bytes."""
        self._columns = [
            (number, field)
            for number, field in enumerate(schema)
            if _has_bounds(field.type) and field.name not in collated
        ][:COLUMN_COUNT_MAX]
        self._null_count = dict.fromkeys((field.name for _, field in self._columns), 0)
        self._bounds: dict[str, tuple[Any, Any] | None] = {}  # ``None``: not to be known

    def add(self, batch: "pa.RecordBatch") -> None:
        """Count one batch."""
        for number, field in self._columns:
            column, name = batch.column(number), field.name
            self._null_count[name] += column.null_count
            if self._bounds.get(name, ()) is None or column.null_count == len(column):
                continue
            self._bounds[name] = _wider(self._bounds.get(name), _bounds_of(column))

    def stats(self) -> dict[str, zbk.ColumnStats]:
        """Return the bounds of each column."""
        stats = {}
        for _, field in self._columns:
            low, high = self._bounds.get(field.name) or (None, None)
            null_count = self._null_count[field.name]
            stats[field.name] = zbk.ColumnStats(null_count=null_count, low=low, high=high)
        return stats


def comparable(value: Any) -> Any:  # noqa: ANN401 - whatever a filter holds
    """Return a filter's value in the form of bounds."""
    match value:
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return (aware - _EPOCH) // _MICROSECOND
        case date():
            return value.toordinal() - _EPOCH.toordinal()
        case _:
            return value


def _has_bounds(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
    )


def _bounds_of(column: "pa.Array") -> tuple[Any, Any] | None:
    """Return the bounds of values that are not all null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return None  # ``min_max`` leaves NaN out
    if types.is_date32(column.type):
        column = column.view(pa.int32())
    elif types.is_timestamp(column.type):
        column = column.view(pa.int64())
    found = pc.min_max(column).as_py()
    low, high = found["min"], found["max"]
    if isinstance(low, str | bytes) and max(len(low), len(high)) > BOUND_SIZE_MAX:
        return None
    return low, high


def _wider(one: tuple[Any, Any] | None, other: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
    if one is None or other is None:
        return other
    return min(one[0], other[0]), max(one[1], other[1])
