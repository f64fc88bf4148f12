"""Schemas: the stored schema of a data set, and the types that it can have.

A data set's schema is Spark's, as JSON, with every column nullable at every depth, as in Parquet,
so that frames that differ only in this fit into one data set. Comments and other metadata of
columns are not stored. The order of columns counts.

Batches travel and are stored as Arrow; times are in UTC.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
)

import zbk

if TYPE_CHECKING:
    import pyarrow as pa


def stored_schema(schema: StructType) -> bytes:
    """Return the stored form of a frame's schema.

    Raises:
        InvalidOptionError: a column has a type that cannot be stored, or two have one name.
    """
    if not schema.fields:
        raise zbk.InvalidOptionError("schema", "", "the frame has no columns")
    _check_names(schema.names, "schema")
    plain = _nullable(schema)
    for field in plain.fields:
        _check(field.dataType, field.name)
        arrow_schema(StructType([field]))  # raises for types that Arrow does not have
    return json.dumps(json.loads(plain.json()), sort_keys=True, separators=(",", ":")).encode()


def spark_schema(stored: bytes) -> StructType:
    """Return the schema of a frame that reads the data set."""
    return StructType.fromJson(json.loads(stored))


def arrow_schema(schema: StructType) -> "pa.Schema":
    """Return the exact schema that Spark requires of record batches.

    Raises:
        InvalidOptionError: Arrow does not have a type.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except PySparkException as error:
        reason = error.getMessage() or str(error)
        raise zbk.InvalidOptionError("schema", schema.simpleString(), reason) from error


def chosen(schema: StructType, columns: tuple[str, ...]) -> StructType:
    """Return the selected columns in their given order; none selects all.

    Raises:
        InvalidOptionError: there is no such column, or one is selected twice.
    """
    if not columns:
        return schema
    _check_names(columns, "columns")
    for name in columns:
        if name not in schema.names:
            known = ", ".join(schema.names)
            raise zbk.InvalidOptionError("columns", name, f"no such column; known: {known}")
    return StructType([schema[name] for name in columns])


def collated_columns(schema: StructType) -> list[str]:
    """Return the text columns that are not compared by their bytes."""
    return [
        field.name
        for field in schema.fields
        if isinstance(field.dataType, StringType) and not field.dataType.isUTF8BinaryCollation()
    ]


def check_readable(wanted: StructType, stored: StructType) -> None:
    """Refuse missing columns, and columns of another type: the user sets ``schema(...)``.

    Raises:
        InvalidOptionError: there is one; the text names the first.
    """
    for field in wanted.fields:
        if field.name not in stored.names:
            known = ", ".join(stored.names)
            raise zbk.InvalidOptionError("schema", field.name, f"no such column; known: {known}")
        there = stored[field.name].dataType
        if _nullable(field.dataType) != there:
            raise zbk.InvalidOptionError(
                "schema",
                field.name,
                f"is {there.simpleString()} in the data set, not {field.dataType.simpleString()}: "
                "read it as it is, and cast it then",
            )


def conformed(batch: "pa.RecordBatch", schema: "pa.Schema") -> "pa.RecordBatch":
    """Return a batch with this schema. Copies only columns of another Arrow type: zoned times."""
    import pyarrow as pa

    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_names(names: Sequence[str], where: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise zbk.InvalidOptionError(where, twice, "two columns have this name")


def _nullable(kind: DataType) -> Any:  # noqa: ANN401 - the same class as ``kind``
    match kind:
        case StructType():
            return StructType(
                [StructField(f.name, _nullable(f.dataType), nullable=True) for f in kind.fields]
            )
        case ArrayType():
            return ArrayType(_nullable(kind.elementType), containsNull=True)
        case MapType():
            value = _nullable(kind.valueType)
            return MapType(_nullable(kind.keyType), value, valueContainsNull=True)
        case _:
            return kind


def _check(kind: DataType, where: str) -> None:
    match kind:
        case StructType():
            _check_names(kind.names, where)
            for field in kind.fields:
                _check(field.dataType, f"{where}.{field.name}")
        case ArrayType():
            _check(kind.elementType, f"{where}[]")
        case MapType():
            _check(kind.keyType, f"{where}.key")
            _check(kind.valueType, f"{where}.value")
        case UserDefinedType():
            raise zbk.InvalidOptionError(
                "schema", where, f"a user-defined type ({kind.simpleString()}) cannot be kept"
            )
        case _:
            return
