"""The story of ``zbk demo spark``: a generator of steps.

A frame is loaded into a data set while the frame itself makes one attempt of one task fail: half
way through, the attempt waits until the story has inspected the data set from outside, and then
raises. Then the data set is read back and compared, by aggregates and by a hash over all rows; the
leftovers of the failed attempt are collected; the load is timed with VD and with PD ledgers; the
data set is overwritten, its old version read once more, and dropped.

The story uses no terminal: its caller shows the steps. Runs in one thread, with a second one that
inspects. The steps are in ``pyspark_zbk.demo_steps``.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

import zbk
from pyspark_zbk import session
from pyspark_zbk.demo_attempt import LOOK_INTERVAL_S, FailingAttempt
from pyspark_zbk.demo_steps import (
    ClusterStarted,
    Compared,
    Dropped,
    FrameRead,
    LedgerSeen,
    LeftoverCollected,
    Loaded,
    LookedMeanwhile,
    SparkStarted,
    Step,
    Timed,
)
from pyspark_zbk.fingerprint import Fingerprint, difference, fingerprint, row_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER: Final = "local[2,4]"  # two tasks at once, each tried four times
SETTINGS: Final = {"spark.sql.shuffle.partitions": "2"}

DATA_SET: Final = "lines"
PARTITION_COUNT: Final = 8
SMALL_ENTRY_SIZE: Final = 4 * 1024
"""Bytes of an entry in the comparison of VD and PD: small ones are expensive for PD."""

TIMED_TYPES: Final = (zbk.LedgerType.VD_BYPASS_JOURNAL, zbk.LedgerType.PD_JOURNAL)
TIMED_COUNT: Final = 2
"""Loads of each type, in turn; the faster one counts."""

KEPT_SHARE: Final = 10  # the overwrite keeps one row in ten
AGGREGATED_COLUMN_COUNT: Final = 16

LEDGER_WAIT_S: Final = 3.0
"""Time that the story waits for the ledger of the failing attempt; a small frame creates none
before its end. Shorter than the attempt's wait for the story."""

OnProgress = Callable[[str], None]


class Cluster(Protocol):
    """The part of a cluster on this machine that the story uses."""

    @property
    def metadata_uri(self) -> str:
        """Its address."""

    @property
    def bookies(self) -> list[Any]:
        """Its bookies."""

    def __enter__(self) -> object:
        """Start it."""

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Stop it."""


class Input(Protocol):
    """A source of frames that are the same each time."""

    @property
    def description(self) -> str:
        """Return a description for people."""

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the frame."""


def tell(
    source: Input,
    cluster: Cluster,
    folder: Path,
    open_session: "Callable[[], AbstractContextManager[SparkSession]]",
    *,
    on_progress: OnProgress = lambda _what: None,
) -> Iterator[Step]:
    """Run the demo on a cluster that is not started yet; yield each step when it is done.

    ``folder``: for marks of the frame and the story; every worker must see it.

    Raises:
        ZbkError: the cluster failed.
        PySparkException: Spark failed.
    """
    started_s = monotonic()
    with cluster:
        yield ClusterStarted(cluster.metadata_uri, len(cluster.bookies), monotonic() - started_s)
        on_progress("starting Spark")
        started_s = monotonic()
        with open_session() as spark, closing(zbk.connect(cluster.metadata_uri)) as client:
            context = spark.sparkContext
            yield SparkStarted(context.version, str(context.master), monotonic() - started_s)
            yield from _Story(spark, client, on_progress).tell(source, FailingAttempt(folder))


@contextmanager
def quiet_session(silence: AbstractContextManager[None]) -> "Iterator[SparkSession]":
    """Yield a session with two concurrent tasks; ``silence`` lasts while its Java starts."""

    def start() -> "SparkSession":
        with silence:
            return session.start(
                "zbk demo spark", master=MASTER, settings=SETTINGS, log_level="OFF"
            )

    with session.interruptible(start) as spark:
        yield spark


class _Story:
    def __init__(self, spark: "SparkSession", client: zbk.Client, on_progress: OnProgress) -> None:
        self._spark = spark
        self._client = client
        self._data_sets = zbk.DataSets(client)
        self._on_progress = on_progress

    def tell(self, source: Input, attempt: FailingAttempt) -> Iterator[Step]:
        self._on_progress("reading the input")
        frame = source.frame(self._spark).coalesce(PARTITION_COUNT).cache()
        started_s = monotonic()
        wanted = fingerprint(frame)
        yield FrameRead(
            source.description,
            frame.schema.simpleString(),
            wanted.row_count,
            wanted.hash,
            monotonic() - started_s,
        )
        yield from self._load_with_a_failure(frame, attempt)
        yield self._compare("version 1", 1, frame, wanted)
        yield self._collect(1)
        yield from self._time(frame)
        yield from self._overwrite(frame, wanted)

    # ------------------------------------------------------------------ acts

    def _load_with_a_failure(
        self, frame: "DataFrame", attempt: FailingAttempt
    ) -> Iterator[LookedMeanwhile | Loaded]:
        self._on_progress("loading, one attempt fails")
        failing = attempt.of(frame)
        started_s = monotonic()
        looked = attempt.in_step(lambda: self._save(failing, DATA_SET), self._look)
        if looked is not None:
            yield looked
        yield self._loaded(1, monotonic() - started_s)

    def _collect(self, version: int) -> LeftoverCollected:
        before = self._leftover(version)
        collected = self._data_sets.collect(DATA_SET)
        gone = [one for one in before if not self._is_there(one.ledger_id)]
        return LeftoverCollected(
            leftover=before,
            deleted_count=collected.deleted_count,
            difference="" if gone == before else "some of them are still there",
        )

    def _time(self, frame: "DataFrame") -> Iterator[Timed]:
        best: dict[zbk.LedgerType, Timed] = {}
        for number in range(TIMED_COUNT):
            for ledger_type in TIMED_TYPES:
                self._on_progress(f"timing a load into {ledger_type} ledgers")
                timed = self._timed(frame, f"timed-{ledger_type}-{number}", ledger_type)
                if ledger_type not in best or timed.seconds < best[ledger_type].seconds:
                    best[ledger_type] = timed
        yield from best.values()

    def _timed(self, frame: "DataFrame", name: str, ledger_type: zbk.LedgerType) -> Timed:
        started_s = monotonic()
        self._save(frame, name, ledgerType=str(ledger_type), entryBytes=str(SMALL_ENTRY_SIZE))
        seconds = monotonic() - started_s
        ledgers = self._data_sets.read(name).ledgers
        return Timed(
            ledger_type=str(ledger_type),
            row_count=sum(one.row_count for one in ledgers),
            entry_count=sum(one.entry_count for one in ledgers),
            size=sum(one.size for one in ledgers),
            seconds=seconds,
        )

    def _overwrite(
        self, frame: "DataFrame", wanted: Fingerprint
    ) -> Iterator[Loaded | Compared | Dropped]:
        self._on_progress("overwriting")
        some = frame.where(row_hash(frame) % KEPT_SHARE == 0)
        started_s = monotonic()
        self._save(some, DATA_SET, mode="overwrite")
        yield self._loaded(2, monotonic() - started_s)
        yield self._compare("the last version", None, some, fingerprint(some))
        yield self._compare('option("version", 1)', 1, frame, wanted)
        self._data_sets.drop_version(DATA_SET, 1)
        yield Dropped(1, self._data_sets.collect(DATA_SET).deleted_count)

    # ------------------------------------------------------------------ pieces

    def _save(self, frame: "DataFrame", name: str, mode: str = "append", **options: str) -> None:
        writer = frame.write.format("zbk").option("metadata", self._client.metadata_uri)
        writer.options(**options).mode(mode).save(name)

    def _look(self) -> LookedMeanwhile:
        """Inspect the data set when the failing attempt has a ledger, or will not get one."""
        deadline_s = monotonic() + LEDGER_WAIT_S
        ledgers = self._ledgers()
        while monotonic() < deadline_s and not any(map(_is_failing, ledgers)):
            Event().wait(LOOK_INTERVAL_S)
            ledgers = self._ledgers()
        refusal = ""
        try:
            self._data_sets.read(DATA_SET)
        except zbk.NoSuchVersionError as error:
            refusal = str(error)
        return LookedMeanwhile(
            ledgers=ledgers,
            refusal=refusal,
            difference="" if refusal else "a version is visible already",
        )

    def _loaded(self, version: int, seconds: float) -> Loaded:
        snapshot = self._data_sets.read(DATA_SET, version)
        return Loaded(
            version=version,
            kind=str(snapshot.version.kind),
            row_count=snapshot.version.row_count,
            size=snapshot.version.size,
            ledger_count=len(snapshot.ledgers),
            leftover=self._leftover(version),
            seconds=seconds,
        )

    def _compare(
        self, what: str, version: int | None, wanted_frame: "DataFrame", wanted: Fingerprint
    ) -> Compared:
        self._on_progress(f"reading {what}")
        reader = self._spark.read.format("zbk").option("metadata", self._client.metadata_uri)
        if version is not None:
            reader = reader.option("version", version)
        frame = reader.load(DATA_SET)
        started_s = monotonic()
        found = fingerprint(frame)
        seconds = monotonic() - started_s
        aggregates, expected = _aggregates(frame), _aggregates(wanted_frame)
        problem = next(
            (
                f"{name} is {aggregates[name]}, the input has {value}"
                for name, value in expected.items()
                if aggregates[name] != value
            ),
            "",
        )
        if not problem and found != wanted:
            rows = difference(frame, wanted_frame, 0)
            problem = (
                f"{rows.only_left_count:,} rows are not in the input, "
                f"{rows.only_right_count:,} are missing"
            )
        return Compared(
            what=what,
            row_count=found.row_count,
            hash=found.hash,
            aggregates=aggregates,
            seconds=seconds,
            difference=problem,
        )

    def _leftover(self, version: int) -> list[LedgerSeen]:
        """Return the ledgers of a version's load that it does not list."""
        snapshot = self._data_sets.read(DATA_SET, version)
        listed = {one.ledger_id for one in snapshot.ledgers} | set(snapshot.version.manifests)
        load_id = snapshot.version.load_id
        return [one for one in self._ledgers(load_id) if one.ledger_id not in listed]

    def _ledgers(self, load_id: str = "") -> list[LedgerSeen]:
        """Return the ledgers of the data set, by default of all loads; manifests, too."""
        data_set_id = self._data_sets.history(DATA_SET).data_set_id.encode()
        seen = []
        for ledger_id in self._client.list_ledgers():
            metadata = self._client.get_ledger_metadata(ledger_id)
            tags = metadata.custom_metadata
            is_wanted = tags.get("zbk.load") == load_id.encode() or not load_id
            if tags.get("zbk.dataset") == data_set_id and is_wanted:
                partition = int(tags.get("zbk.partition", b"-1"))
                attempt = int(tags.get("zbk.attempt", b"-1"))
                seen.append(LedgerSeen(ledger_id, partition, attempt, str(metadata.state)))
        return seen

    def _is_there(self, ledger_id: int) -> bool:
        try:
            self._client.get_ledger_metadata(ledger_id)
        except zbk.NoSuchLedgerError:
            return False
        return True


def _is_failing(one: LedgerSeen) -> bool:
    return (one.partition, one.attempt) == (0, 0)


def _aggregates(frame: "DataFrame") -> dict[str, str]:
    """Return aggregates of each simple column that do not depend on the order of rows."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import AtomicType, IntegralType, StringType

    wanted = [sf.count(sf.lit(1)).alias("count(*)")]
    for field in frame.schema.fields[:AGGREGATED_COLUMN_COUNT]:
        column, kind = sf.col("`" + field.name.replace("`", "``") + "`"), field.dataType
        wanted.append(sf.count(column).alias(f"count({field.name})"))
        if isinstance(kind, AtomicType):
            wanted.append(sf.min(column).alias(f"min({field.name})"))
            wanted.append(sf.max(column).alias(f"max({field.name})"))
        if isinstance(kind, IntegralType):
            wanted.append(sf.sum(column.cast("decimal(38,0)")).alias(f"sum({field.name})"))
        if isinstance(kind, StringType):
            wanted.append(sf.sum(sf.length(column)).alias(f"sum(length({field.name}))"))
    (row,) = frame.agg(*wanted).collect()
    return {name: str(value) for name, value in row.asDict().items()}
