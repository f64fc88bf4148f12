"""A standalone Spark cluster from the wheel: real ``spark-submit``, two workers, and twins."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest

import zbk
from pyspark_zbk.session import java_home
from tests.support.spark import LONG_AFTER_MS
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.system.clock import wall_ms
from zbk.system.ports import free_ports

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 90
SUBMIT_TIMEOUT_S = 240
ROW_COUNT = 2000

JOB = """
import sys
import pyspark_zbk
from pyspark.sql import SparkSession

metadata, name, slow = sys.argv[1:]
with SparkSession.builder.getOrCreate() as spark:
    pyspark_zbk.register(spark)

    def one_partition_is_slow(number, rows):
        from pyspark import TaskContext
        import time
        yield from ((row,) for row in rows)
        if slow == "slow" and number == 1 and TaskContext.get().attemptNumber() == 0:
            time.sleep(60)

    rows = spark.sparkContext.range(0, 2000, 1, 4).mapPartitionsWithIndex(one_partition_is_slow)
    frame = spark.createDataFrame(rows, "id long")
    frame.write.format("zbk").option("metadata", metadata).mode("append").save(name)
    found = spark.read.format("zbk").option("metadata", metadata).load(name)
    print("SUM", found.selectExpr("sum(id)").first()[0])
"""


class SparkCluster:
    """A master and two workers on loopback addresses of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._exit = ExitStack()
        spec = find_spec("pyspark")
        assert spec is not None, "Spark is installed"
        assert spec.origin is not None, "as a package"
        self.home = Path(spec.origin).parent
        self.environment = os.environ | {
            "SPARK_HOME": str(self.home),
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        self.url = ""

    def start(self) -> None:
        port = free_ports(1)[0]
        self.url = f"spark://127.0.0.1:{port}"
        self._daemon(
            "master", "127.0.0.1", "New state: ALIVE",
            "master.Master", "--host", "127.0.0.1", "--port", str(port),
        )  # fmt: skip
        for number in (2, 3):
            host = f"127.0.0.{number}"
            self._daemon(
                f"worker{number}", host, "Successfully registered with master",
                "worker.Worker", "--host", host, "--cores", "1", "--memory", "1g",
                "--work-dir", str(self._folder / f"work{number}"), self.url,
            )  # fmt: skip

    def stop(self) -> None:
        self._exit.close()

    def submit(self, job: Path, *arguments: str, settings: dict[str, str]) -> str:
        """Run a job to its end and return what it printed."""
        command = [str(self.home / "bin" / "spark-submit"), "--master", self.url]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
        command += ["--py-files", str(_packages(self._folder)), str(job), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self._folder,
            timeout=SUBMIT_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        return done.stdout

    def _daemon(self, name: str, host: str, ready: str, main: str, *arguments: str) -> None:
        log_path = self._folder / f"{name}.log"
        log = self._exit.enter_context(log_path.open("wb"))
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        process = subprocess.Popen(
            [*command, *arguments, "--webui-port", str(free_ports(1)[0])],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.environment | {"SPARK_LOCAL_IP": host},
        )
        self._exit.callback(process.wait, 30)
        self._exit.callback(process.terminate)
        wait_until(lambda: ready in log_path.read_text(), START_TIMEOUT_S, f"{name} is up")


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path_factory.mktemp("spark-cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    with LocalCluster(folder, use_zookeeper=True) as cluster:
        yield cluster


def test_the_same_job_runs_by_spark_submit_on_two_workers(
    spark_cluster: SparkCluster, bookies: LocalCluster, tmp_path: Path
) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    printed = spark_cluster.submit(job, bookies.metadata_uri, "plain", "quick", settings={})
    assert f"SUM {sum(range(ROW_COUNT))}" in printed


def test_of_speculative_twins_one_is_seen_and_the_other_is_collected(
    spark_cluster: SparkCluster, bookies: LocalCluster, tmp_path: Path
) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    name = f"twins-{uuid4().hex}"
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.minTaskRuntime": "500ms",
    }
    printed = spark_cluster.submit(job, bookies.metadata_uri, name, "slow", settings=settings)
    assert f"SUM {sum(range(ROW_COUNT))}" in printed
    with zbk.connect(bookies.metadata_uri) as client:
        data_sets = zbk.DataSets(client, now_ms=lambda: wall_ms() + LONG_AFTER_MS)
        snapshot = data_sets.read(name)
        assert {one.partition: one.attempt for one in snapshot.ledgers} == {0: 0, 1: 1, 2: 0, 3: 0}
        data_sets.collect(name)
        listed = {one.ledger_id for one in snapshot.ledgers} | set(snapshot.version.manifests)
        data_set_id = data_sets.history(name).data_set_id.encode()
        left = {
            ledger_id
            for ledger_id in client.list_ledgers()
            if client.get_ledger_metadata(ledger_id).custom_metadata.get("zbk.dataset")
            == data_set_id
        }
    assert left == listed


def _packages(folder: Path) -> Path:
    """Return a zip of the packages, as ``--py-files`` takes it."""
    path = folder / "zbk.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for root, package in ((ROOT, "zbk"), (ROOT / "spark", "pyspark_zbk")):
            for source in sorted((root / package).rglob("*.py")):
                archive.write(source, source.relative_to(root))
    return path
