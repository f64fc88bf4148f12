"""A bookie as a process runs it: what a signal does, whenever it comes."""

import io
import logging
import signal
import sys
from typing import Any

import pytest

from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.identity import init_identity
from zbk.actors.process.bookie_process import run_bookie
from zbk.config import BookieConfig
from zbk.metadata.stores.connect import open_store

CONFIG = BookieConfig(
    metadata="memory://test-bookie-process",
    journal_dir="/j",
    ledger_dir="/l",
    listen="tcp://127.0.0.1:0",
    journal_segment_size=1 << 20,
    disk_reserve_size=2 << 20,
    disk_warn_free="0",
    disk_readonly_free="0",
)


class SignalledPipe(io.RawIOBase):
    """A standard error that a SIGTERM interrupts while it is written to for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self._is_first = True

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - a buffer
        if self._is_first:
            self._is_first = False
            signal.raise_signal(signal.SIGTERM)
        return memoryview(data).nbytes


@pytest.mark.timeout(60)
def test_a_signal_that_interrupts_a_log_line_stops_the_bookie(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Then another line cannot be logged: a buffer is not written to twice at once."""
    stream = io.TextIOWrapper(io.BufferedWriter(SignalledPipe()), line_buffering=True)
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("zbk")
    disk = SimulatedDisk()
    store = open_store(CONFIG.metadata)
    init_identity(disk, store, CONFIG)

    def say_ready(_registration: object) -> None:
        logger.addHandler(handler)
        monkeypatch.setattr(sys, "stderr", stream)
        logger.info("READY")

    caplog.set_level(logging.INFO, "zbk")
    try:
        exit_code = run_bookie(CONFIG, on_ready=say_ready, files=disk)
    finally:
        logger.removeHandler(handler)
        store.close()

    assert exit_code == 0
