"""A manifest: the list of data ledgers of one or more loads, as the entries of a PD ledger.

Format version 1. Each entry is a msgpack map and its checksum:

    size  type  meaning
    ----  ----  -----------------------------------------------------------------------------
       n  map   entry 0: {"format_version": 1, "data_set_id": str, "load_id": str,
                "schema": bin, "ledger_count": int, "entry_count": int}
                entry 1..: {"ledgers": [DataLedger as a map, ...]}, as many as ``PART_SIZE`` takes
       8  u64   big-endian, XXH3-64 of the map, seeded with the checksum of the entry before it;
                0 before entry 0

The data source defines ``schema``; zbk keeps it and compares its hash. ``entry_count`` counts the
entries after entry 0. A manifest that ends early, has more entries, or has them in another order is
therefore damaged, even if the digests of its ledger are correct.

The data source also defines the entries of data ledgers.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Source: Iceberg's manifest files; the numbers in them serve the same ends, splits and skipping.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Self

import msgspec

from zbk.conversion import convert
from zbk.errors import CorruptRecordError, UnsupportedVersionError
from zbk.protocol.entry.digest import checksum

MANIFEST_FORMAT_VERSION: Final = 1

PART_SIZE: Final = 256 * 1024
"""Bytes at which an entry of the list is full. A larger line of one ledger has its own entry."""

BOUND_TYPES: Final = (int, float, str, bytes, bool)
"""Types of the bounds of a column; columns of other types have none."""

_BOUND_INT_MIN, _BOUND_INT_MAX = -(2**63), 2**64 - 1  # the range of msgpack
_CHECKSUM_SIZE = 8


class ColumnStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of one column in one ledger."""

    null_count: int
    low: Any = None  # of ``BOUND_TYPES``: no value is less; ``None``: not known
    high: Any = None  # likewise: no value is greater

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if bound is not None and not isinstance(bound, BOUND_TYPES):
                raise TypeError(f"a bound cannot be a {type(bound).__name__}")
            if isinstance(bound, float) and bound != bound:  # noqa: PLR0124 - NaN
                raise ValueError("a bound cannot be NaN: no value is less, and no value is greater")
            if isinstance(bound, int) and not _BOUND_INT_MIN <= bound <= _BOUND_INT_MAX:
                raise ValueError(f"a bound cannot be {bound}: over 64 bits")


class DataLedger(msgspec.Struct, frozen=True, kw_only=True):
    """A data ledger: closed, and read from its first to its last entry."""

    ledger_id: int
    entry_count: int  # with the schema in entry 0
    row_count: int
    size: int  # bytes of payload
    load_id: str
    partition: int  # of the load's input
    attempt: int
    columns: dict[str, ColumnStats] = {}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded manifest."""

    data_set_id: str
    load_id: str
    schema: bytes
    ledgers: tuple[DataLedger, ...]


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    data_set_id: str
    load_id: str
    schema: bytes
    ledger_count: int
    entry_count: int
    format_version: int = MANIFEST_FORMAT_VERSION


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    ledgers: tuple[DataLedger, ...]

    @classmethod
    def of(cls, ledgers: Sequence[DataLedger]) -> Self:
        return cls(ledgers=tuple(ledgers))


def schema_hash(schema: bytes) -> str:
    """Return a hash that is the same for equal schemas.

    >>> schema_hash(b"")
    '2d06800538d394c2'
    """
    return f"{checksum(schema):016x}"


def encode_manifest(
    data_set_id: str, load_id: str, schema: bytes, ledgers: Sequence[DataLedger]
) -> list[bytes]:
    """Return the payloads of a manifest ledger's entries."""
    parts = [_Part.of(some) for some in _parts(ledgers)]
    head = _Head(
        data_set_id=data_set_id,
        load_id=load_id,
        schema=schema,
        ledger_count=len(ledgers),
        entry_count=len(parts),
    )
    payloads = []
    seed = 0
    for one in (head, *parts):
        body = msgspec.msgpack.encode(one)
        seed = checksum(body, seed)
        payloads.append(body + seed.to_bytes(_CHECKSUM_SIZE, "big"))
    return payloads


def decode_manifest(payloads: Iterable[bytes], where: str) -> Manifest:
    """Return the manifest in all payloads of a ledger.

    Raises:
        CorruptRecordError: they are no manifest, or not a whole one, or damaged.
        UnsupportedVersionError: a newer zbk wrote it.
    """
    bodies = _verified(payloads, where)
    first = next(bodies, None)
    if first is None:
        raise CorruptRecordError(where, 0, "is empty, and no manifest")
    fields = _unpack(*first)
    version = fields.get("format_version")
    if isinstance(version, int) and version > MANIFEST_FORMAT_VERSION:
        raise UnsupportedVersionError(
            f"{where}: the manifest has format version {version}, "
            f"this zbk knows {MANIFEST_FORMAT_VERSION}"
        )
    head = _convert(fields, _Head, where)
    parts = [_convert(_unpack(body, place), _Part, place) for body, place in bodies]
    ledgers = tuple(ledger for part in parts for ledger in part.ledgers)
    if len(parts) != head.entry_count or len(ledgers) != head.ledger_count:
        raise CorruptRecordError(where, 0, "is not all of a manifest")
    return Manifest(
        data_set_id=head.data_set_id, load_id=head.load_id, schema=head.schema, ledgers=ledgers
    )


def _parts(ledgers: Sequence[DataLedger]) -> Iterator[list[DataLedger]]:
    part: list[DataLedger] = []
    size = 0
    for ledger in ledgers:
        line_size = len(msgspec.msgpack.encode(ledger))
        if part and size + line_size > PART_SIZE:
            yield part
            part, size = [], 0
        part.append(ledger)
        size += line_size
    if part:
        yield part


def _verified(payloads: Iterable[bytes], where: str) -> Iterator[tuple[bytes, str]]:
    """Yield the map of each entry, after its checksum was verified, and its place."""
    seed = 0
    for number, payload in enumerate(payloads):
        place = f"{where}, entry {number}"
        body, found = payload[:-_CHECKSUM_SIZE], payload[-_CHECKSUM_SIZE:]
        seed = checksum(body, seed)
        if found != seed.to_bytes(_CHECKSUM_SIZE, "big"):
            raise CorruptRecordError(place, 0, "is of no manifest: the checksum does not match")
        yield body, place


def _unpack(payload: bytes, where: str) -> dict[Any, Any]:
    try:
        fields = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CorruptRecordError(where, 0, f"is of no manifest: {error}") from error
    if not isinstance(fields, dict):
        raise CorruptRecordError(where, 0, f"is of no manifest: a {type(fields).__name__}")
    return fields


def _convert(fields: dict[Any, Any], part_type: type[Any], where: str) -> Any:  # noqa: ANN401
    try:
        return convert(fields, part_type, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise CorruptRecordError(where, 0, f"is of no manifest: {error}") from error
