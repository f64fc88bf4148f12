"""What every test of zbk stands on: golden files that can be rewritten, actors that end."""

import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator

import pykka
import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests.support import patient_starts, warm_start
from tests.support.compiled import compile_all
from tests.support.machine import patient_s
from tests.support.memory_store import open_memory_stores_by_address
from tests.support.notes import notes_in
from tests.support.schedule import Scheduling, rank_of
from tests.support.sessions import close_sessions

settings.register_profile(  # a busy machine makes no example wrong
    "zbk", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("zbk")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what golden scripts print into their files; read the diff before you commit it",
    )


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout
def pytest_configure(config: pytest.Config) -> None:
    """Open ``memory://`` addresses, and have the programs that tests start end at SIGINT.

    A shell's background jobs ignore SIGINT.
    """
    os.environ.setdefault("PYTEST_TIMEOUT", str(patient_s(float(config.getini("timeout")))))
    open_memory_stores_by_address()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    patient_starts.install()
    warm_start.install()
    if config.getoption("numprocesses", None):
        compile_all(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Run files that share a Spark session in the same process."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: what is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what waits before what computes."""
    items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests noted that passed."""
    for note in notes_in(terminalreporter.stats.get("passed", [])):
        terminalreporter.write_line(f"note: {note}")


@pytest.fixture
def rewrite_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten rather than compared."""
    return bool(request.config.getoption("--rewrite-golden"))


@pytest.fixture(scope="module", autouse=True)
def _garbage_is_sought_in_one_module() -> None:
    """Keep thousands of tests, and what earlier modules left, out of collections of garbage.

    A collection among 200,000 objects takes a tenth of a second, and a seed of the simulation takes
    as long.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _folders_end_with_the_module(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Remove what fixtures of a module made, unless a test has failed: clusters are large.

    What lives as long as the session has a name that begins with "session-".
    """
    base = tmp_path_factory.getbasetemp()
    before = set(base.iterdir())
    failed_count = request.session.testsfailed
    yield
    if request.session.testsfailed == failed_count:
        for folder in set(base.iterdir()) - before:
            if folder.is_dir() and not folder.is_symlink() and "session-" not in folder.name:
                shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _nothing_outlives_the_test(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    """End sessions and actors. Fail the test when an actor died: pykka only logs it and goes on.

    One fixture, because each costs ten thousand tests a part of a millisecond.
    """
    yield
    close_sessions()
    if pykka.ActorRegistry.get_all():
        pykka.ActorRegistry.stop_all(timeout=5)
        assert pykka.ActorRegistry.get_all() == []
    if request.node.get_closest_marker("actor_may_fail"):
        return
    records = caplog.get_records("setup") + caplog.get_records("call")
    deaths = [r for r in records if r.name.startswith("pykka") and r.levelname == "ERROR"]
    assert [death.getMessage() for death in deaths] == []
