"""One cluster, one console and one browser for the modules of this folder."""

import shutil
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

import zbk
from tests.support.machine import patient_s
from zbk.cluster.local import LocalCluster
from zbk.console.console import running_console

if TYPE_CHECKING:
    from selenium import webdriver

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


class Site:
    """A console and the cluster that it shows."""

    def __init__(self, url: str, cluster: LocalCluster, client: zbk.Client) -> None:
        self.url = url
        self.cluster = cluster
        self.client = client
        self.pd_id = 0
        self.striped_id = 0
        self._writers: list[zbk.LedgerWriter] = []  # one without a handle ends

    def unsynced_ledger(self) -> int:
        """Return a new VD ledger of which 200 entries are not synced."""
        writer = self.client.create_ledger(ledger_type=zbk.LedgerType.VD_JOURNAL)
        writer.append_many([b"y" * 100] * 500)
        writer.sync()
        writer.append_many([b"y" * 100] * 200).result()
        self._writers.append(writer)
        return writer.ledger_id


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    unsynced = {"sync_interval_ms": 0, "checkpoint_interval_ms": 3_600_000}  # entries stay so
    quick = {"session_timeout_ms": 2_000, **unsynced}
    with (
        TemporaryDirectory(prefix="zbk-") as folder,  # short: pages and screenshots show it
        LocalCluster(folder, bookie_count=4, bookie_options=quick) as cluster,
        running_console(cluster.metadata_uri, "127.0.0.1:0", allow_actions=True) as url,
        zbk.connect(cluster.metadata_uri, explicit_lac_ms=0) as client,  # idle writers sync nothing
    ):
        cluster.start_autorecovery({"lost_bookie_delay_ms": 0, "session_timeout_ms": 2_000})
        site = Site(url, cluster, client)
        with client.create_ledger(custom_metadata={"job": b"nightly"}) as ledger:
            ledger.append_many([b"x" * 100] * 2_000)
        site.pd_id = ledger.ledger_id
        with client.create_ledger(
            ensemble_size=3, write_quorum_size=2, ack_quorum_size=2
        ) as striped:
            striped.append_many([b"z" * 100] * 200)
        site.striped_id = striped.ledger_id
        yield site


@pytest.fixture(scope="module")
def browser() -> Iterator["webdriver.Chrome"]:
    from selenium.webdriver import Chrome, ChromeOptions  # noqa: PLC0415 - it takes long
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415 - same

    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,860")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, Service(DRIVER))
    driver.set_page_load_timeout(patient_s(30))
    driver.set_script_timeout(patient_s(30))
    yield driver
    driver.quit()
