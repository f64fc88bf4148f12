"""The options for reading a log, and positions in the form that Spark keeps.

An *offset* is a position of a log as JSON: ``{"log": "orders", "ledger": 7, "entry": 42}``: the
next entry to read. It names an entry, not a count, so it stays valid when the log rolls, or its
owner is replaced. The first position of a log that never had an owner is not known yet: ledger -1.
"""

import json
import re
from typing import Final, TypeAlias

import msgspec

import zbk
from pyspark_zbk.options import PARTITION_SIZE_MIN, Options

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

PARTITION_SIZE: Final = 16 * 1024 * 1024
"""Less than for a data set: entries are small, and each has a cost for its reader."""

BEFORE_ALL: Final = zbk.LogPosition(-1, 0)

Offset: TypeAlias = dict[str, str | int]

_IS_JSON: Final = re.compile(r"\s*\{")


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a log to read."""

    name: str
    start: zbk.LogPosition | str  # or EARLIEST, or LATEST
    end: zbk.LogPosition | str
    entry_count_max: int | None  # of a micro-batch
    size_max: int | None  # of a micro-batch, in bytes of payload
    fails_on_loss: bool
    partition_size: int


def log_name(options: Options) -> str:
    """Return the name of the log to read.

    Raises:
        InvalidOptionError: none is given, or another source is given, too.
    """
    name = options.text("log")
    if not name:
        raise zbk.InvalidOptionError(
            "log", "", "name the log to read: readStream reads logs only, spark.read data sets, too"
        )
    for other in ("path", "dataset"):
        if other in options:
            raise zbk.InvalidOptionError(
                other, options.text(other), f"and log {name!r}: which one is it?"
            )
    return name


def log_options(options: Options, *, is_stream: bool) -> LogOptions:
    """Return the options of a log.

    Raises:
        InvalidOptionError: one is missing, or has an impossible value.
    """
    name = log_name(options)
    start = _position(options, "startingOffsets", name, LATEST if is_stream else EARLIEST)
    end = _position(options, "endingOffsets", name, LATEST)
    if not is_stream and start == LATEST:
        raise zbk.InvalidOptionError("startingOffsets", LATEST, "leaves nothing to be read")
    if end == EARLIEST:
        raise zbk.InvalidOptionError("endingOffsets", EARLIEST, "leaves nothing to be read")
    return LogOptions(
        name=name,
        start=start,
        end=end,
        entry_count_max=_limit(options, "maxEntriesPerTrigger"),
        size_max=(
            options.size("maxBytesPerTrigger", 1, 1) if "maxBytesPerTrigger" in options else None
        ),
        fails_on_loss=options.flag("failOnDataLoss", default=True),
        partition_size=options.size("maxPartitionBytes", PARTITION_SIZE, PARTITION_SIZE_MIN),
    )


def offset_of(name: str, position: zbk.LogPosition) -> Offset:
    """Return a position in Spark's form."""
    return {"log": name, "ledger": position.ledger_id, "entry": position.entry_id}


def position_of(name: str, offset: Offset) -> zbk.LogPosition:
    """Return the position of an offset.

    Raises:
        InvalidOptionError: the offset belongs to another log, or to something else.
    """
    if offset.get("log", name) != name:
        raise zbk.InvalidOptionError(
            "log", name, f"the checkpoint is of log {offset['log']!r}: give another location"
        )
    ledger_id, entry_id = offset.get("ledger"), offset.get("entry")
    if not isinstance(ledger_id, int) or not isinstance(entry_id, int) or entry_id < 0:
        raise zbk.InvalidOptionError("offset", json.dumps(offset), "is no position of a log")
    return zbk.LogPosition(ledger_id, entry_id)


def _position(options: Options, option: str, name: str, default: str) -> zbk.LogPosition | str:
    text = options.text(option, default).strip()
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    try:
        if _IS_JSON.match(text):
            return position_of(name, json.loads(text))
        return zbk.LogPosition.parse(text)
    except (ValueError, zbk.InvalidOptionError) as error:
        raise zbk.InvalidOptionError(
            option,
            text,
            f'is not earliest, latest, LEDGER:ENTRY or {{"ledger": 7, "entry": 42}}: {error}',
        ) from None


def _limit(options: Options, name: str) -> int | None:
    return options.number(name, 1) if name in options else None
