"""The fingerprint of a frame: equal for frames with the same rows in any order.

A row's hash is XXH64 over all its columns, in the order of their names; a frame's is the sum of its
rows' hashes, so it depends on how often each row occurs and not on its place. Columns must have the
same types. Maps are hashed as their sorted entries; a null differs from every value, at every depth
(Spark's own hash skips nulls, and refuses maps).

Two frames that differ have the same hash by chance once in 2**64.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PIECE_BITS: Final = 16  # sums of so many bits of each hash do not overflow below 2**47 rows
_PIECE_NAMES: Final = tuple(f"piece{number}" for number in range(64 // _PIECE_BITS))
_HASH: Final = "zbk row hash"
_COUNT: Final = "zbk row count"


class Fingerprint(msgspec.Struct, frozen=True):
    """The number of rows, and the sum of their hashes."""

    row_count: int
    hash: str  # 16 hexadecimal digits


class Difference(msgspec.Struct, frozen=True):
    """Rows that occur more often in one frame than in the other."""

    only_left_count: int
    only_right_count: int
    only_left: tuple[str, ...] = ()  # some of them, as JSON
    only_right: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if there are none."""
        return not (self.only_left_count or self.only_right_count)


def fingerprint(frame: "DataFrame") -> Fingerprint:
    """Read a frame once and return its fingerprint."""
    hashes = frame.select(row_hash(frame).alias(_HASH))
    (found,) = hashes.agg(sf.count(sf.lit(1)).alias(_COUNT), *_pieces()).collect()
    total = sum(
        (found[name] or 0) << (_PIECE_BITS * number) for number, name in enumerate(_PIECE_NAMES)
    )
    return Fingerprint(found[_COUNT], f"{total % 2**64:016x}")


def difference(left: "DataFrame", right: "DataFrame", example_count: int = 3) -> Difference:
    """Read two frames and return the rows that only one of them has.

    Costs a shuffle of all hashes: for frames whose fingerprints differ.
    """
    both = _signed(left, 1).unionAll(_signed(right, -1))
    surplus = both.groupBy(_HASH).agg(sf.sum(_COUNT).alias(_COUNT)).where(f"`{_COUNT}` <> 0")
    surplus = surplus.cache()
    try:
        (counts,) = surplus.agg(
            sf.sum(sf.greatest(sf.col(_COUNT), sf.lit(0))).alias("left"),
            sf.sum(sf.greatest(-sf.col(_COUNT), sf.lit(0))).alias("right"),
        ).collect()
        return Difference(
            only_left_count=counts["left"] or 0,
            only_right_count=counts["right"] or 0,
            only_left=_examples(left, surplus.where(f"`{_COUNT}` > 0"), example_count),
            only_right=_examples(right, surplus.where(f"`{_COUNT}` < 0"), example_count),
        )
    finally:
        surplus.unpersist()


def row_hash(frame: "DataFrame") -> "Column":
    """Return the hash of each row of a frame."""
    fields = sorted(frame.schema.fields, key=lambda field: field.name)
    marked = [_marked(sf.col(_quoted(field.name)), field.dataType) for field in fields]
    return sf.xxhash64(*marked)


def _pieces() -> "Sequence[Column]":
    mask = sf.lit(2**_PIECE_BITS - 1)
    return [
        sf.sum(sf.shiftrightunsigned(_HASH, _PIECE_BITS * number).bitwiseAND(mask)).alias(name)
        for number, name in enumerate(_PIECE_NAMES)
    ]


def _signed(frame: "DataFrame", sign: int) -> "DataFrame":
    return frame.select(row_hash(frame).alias(_HASH), sf.lit(sign).cast("long").alias(_COUNT))


def _examples(frame: "DataFrame", surplus: "DataFrame", count: int) -> tuple[str, ...]:
    wanted = [row[_HASH] for row in surplus.limit(count).collect()]
    if not wanted:
        return ()
    rows = frame.where(row_hash(frame).isin(wanted)).limit(count)
    return tuple(row[0] for row in rows.select(sf.to_json(sf.struct("*"))).collect())


def _marked(value: "Column", kind: DataType) -> "Column":
    """Return a value after a mark for its presence: hashes skip nulls."""
    return sf.struct(value.isNull(), _plain(value, kind))


def _plain(value: "Column", kind: DataType) -> "Column":
    """Return a value without maps, and with marks at every depth."""
    match kind:
        case StructType():
            parts = [_marked(value.getField(field.name), field.dataType) for field in kind.fields]
            return sf.struct(*parts)
        case ArrayType():
            element = kind.elementType
            return sf.struct(sf.size(value), sf.transform(value, lambda one: _marked(one, element)))
        case MapType():
            return sf.struct(sf.size(value), _sorted_entries(value, kind))
        case _:
            return value


def _sorted_entries(value: "Column", kind: MapType) -> "Column":
    """Return the sorted hashes of a map's entries: values may have a type without an order."""
    entries = sf.transform(
        sf.map_entries(value),
        lambda entry: sf.xxhash64(
            _marked(entry.getField("key"), kind.keyType),
            _marked(entry.getField("value"), kind.valueType),
        ),
    )
    return sf.array_sort(entries)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
