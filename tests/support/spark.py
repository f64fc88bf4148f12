"""A data set as tests of Spark see it: frames in, frames out, and what is left in the cluster."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import zbk
from tests.support import spark_classes
from zbk.system.clock import wall_ms

HOUR_MS = 3_600_000
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
) + spark_classes.options()
"""Options of a Java that lives for seconds: it does not optimize, collect on other cores or verify.

Verification takes a tenth of the time in which Spark starts, and reading classes half of it.
"""

QUICK_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Of a session: small queries start sooner."""
LONG_AFTER_MS = 365 * 24 * HOUR_MS


class DataSetName(msgspec.Struct, frozen=True):
    """A name in a cluster, and the session that writes and reads it."""

    spark: SparkSession
    metadata: str
    name: str
    format: str = "zbk"

    def by(self, source: str) -> "DataSetName":
        """Return the same data set, written and read by another format."""
        return msgspec.structs.replace(self, format=source)

    def write(self, frame: DataFrame, mode: str = "append", **options: object) -> None:
        writer = frame.write.format(self.format).option("metadata", self.metadata).mode(mode)
        writer.options(**{key: str(value) for key, value in options.items()}).save(self.name)

    def read(self, **options: object) -> DataFrame:
        reader = self.spark.read.format(self.format).option("metadata", self.metadata)
        return reader.options(**{key: str(value) for key, value in options.items()}).load(self.name)

    def client(self) -> zbk.Client:
        return zbk.connect(self.metadata)

    def row_count(self) -> int:
        """Return the rows of the last version, as its metadata have them; 0 if there is none."""
        with self.client() as client:
            current = zbk.DataSets(client).history(self.name).current
            return 0 if current is None else current.row_count

    def version_count(self) -> int:
        with self.client() as client:
            return len(zbk.DataSets(client).history(self.name).versions)

    def ledger_ids(self) -> set[int]:
        """Return the ledgers of this data set that are there, wanted or not."""
        with self.client() as client:
            data_set_id = zbk.DataSets(client).history(self.name).data_set_id.encode()
            return {
                ledger_id
                for ledger_id in client.list_ledgers()
                if client.get_ledger_metadata(ledger_id).custom_metadata.get("zbk.dataset")
                == data_set_id
            }

    def listed_ids(self) -> set[int]:
        """Return the ledgers that the last version lists, and its manifests."""
        with self.client() as client:
            data_sets = zbk.DataSets(client)
            if data_sets.history(self.name).current is None:
                return set()
            snapshot = data_sets.read(self.name)
            data = {ledger.ledger_id for ledger in snapshot.ledgers}
            return data | set(snapshot.version.manifests)

    def collect(self, later_ms: int = 0) -> int:
        """Collect as if it were so much later; return how many ledgers were deleted."""
        with self.client() as client:
            data_sets = zbk.DataSets(client, now_ms=lambda: wall_ms() + later_ms)
            return data_sets.collect(self.name).deleted_count


def in_thread(spark: SparkSession, action: Callable[[], object]) -> Future[object]:
    """Start a thread for an action of Spark's: formats are known to its active session only."""
    future: Future[object] = Future()

    def run() -> None:
        jvm = spark._jvm
        assert jvm is not None, "the session runs"
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
        try:
            future.set_result(action())
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            future.set_exception(error)

    threading.Thread(target=run).start()
    return future


def error_of(action: Callable[[], object]) -> str:
    """Return the text of the error that Spark raises."""
    try:
        action()
    except (PySparkException, Py4JJavaError) as error:
        return str(error)
    raise AssertionError("no error")


def marks_in(folder: Path) -> list[str]:
    """Return what was written down there, in order of names."""
    return sorted(path.name for path in folder.iterdir())
