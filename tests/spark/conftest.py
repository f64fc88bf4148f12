"""One Spark session and one cluster for each test process that runs tests of Spark."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

import zbk
from pyspark_zbk import session
from pyspark_zbk.clients import close_clients
from tests.support.log_streams import World
from tests.support.spark import QUICK_JAVA, QUICK_SETTINGS, DataSetName
from tests.support.spark_python import warm_python
from tests.support.spark_sources import MARKS
from zbk.cluster.local import LocalCluster

ROOT = Path(__file__).parents[2]
PATIENT = {"session_timeout_ms": 30_000}
"""Nobody is killed; and a bookie that starves beside Spark on few cores stays registered."""

SETTINGS = {
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "zbk-test-warehouse"),
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    **QUICK_SETTINGS,
}


@pytest.fixture(scope="session")
def marks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where sources of ``tests.support.spark_sources`` write down what they did."""
    return tmp_path_factory.mktemp("session-marks")


@pytest.fixture(scope="session")
def quick_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Python whose workers start quickly, for drivers that nobody kills."""
    with warm_python(tmp_path_factory.mktemp("session-python")) as python:
        yield python


@pytest.fixture(scope="session")
def spark(marks_folder: Path, quick_python: Path) -> Iterator[SparkSession]:
    """A session of two threads that tries a task four times. It is silent: failures are meant."""
    # workers find the sources of tests, and the packages of this checkout, by name
    paths = [str(ROOT), str(ROOT / "spark"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ[MARKS] = str(marks_folder)
    with pytest.MonkeyPatch.context() as patch:  # the JVM keeps it, and this process may not
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            patch.setenv(name, str(quick_python))
        started = session.start(
            "zbk tests", master="local[2,4]", settings=SETTINGS, log_level="OFF"
        )
    with started:
        yield started


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three bookies on SQLite metadata, shared by all tests of Spark. Nobody kills them."""
    folder = tmp_path_factory.mktemp("session-spark-cluster") / "data"
    with LocalCluster(folder, bookie_options=PATIENT) as running:
        yield running


@pytest.fixture
def events(spark: SparkSession, cluster: LocalCluster) -> DataSetName:
    """A data set that is not there yet."""
    return DataSetName(spark, cluster.metadata_uri, f"events-{uuid4().hex}")


@pytest.fixture
def world(cluster: LocalCluster) -> Iterator[World]:
    """The cluster with a client, and the streams that a test makes on it."""
    with zbk.connect(cluster.metadata_uri) as client:
        made = World(cluster.metadata_uri, client)
        yield made
        for stream in made.streams:
            stream.reader.stop()
        close_clients()
