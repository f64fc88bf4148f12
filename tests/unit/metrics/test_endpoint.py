import json
import logging
import socket
from collections.abc import Iterator

import pytest

import zbk
from tests.support.http import ask
from zbk.config.http_address import http_port_of, parse_http
from zbk.errors import InvalidOptionError
from zbk.metrics.build import VERSION
from zbk.metrics.checks import Check
from zbk.metrics.endpoint import Endpoint
from zbk.metrics.serving import serving
from zbk.system.clock import wall_ms


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint("1.2.3", "bookie")


@pytest.fixture
def url(endpoint: Endpoint) -> Iterator[str]:
    with serving(endpoint, "127.0.0.1:0", 0) as one:
        yield one


def test_a_process_is_alive_before_it_is_ready(url: str) -> None:
    assert ask(f"{url}/livez").status == 200
    early = ask(f"{url}/readyz")
    assert (early.status, early.body) == (503, "[-]started failed: not yet\nreadyz check failed\n")


def test_readyz_follows_the_checks_of_what_is_attached(endpoint: Endpoint, url: str) -> None:
    checks = [Check("registered", is_ok=True), Check("writable", is_ok=False, is_required=False)]
    detach = endpoint.attach("bookie", lambda _samples: None, lambda: checks)
    assert ask(f"{url}/readyz").body == "ok\n"
    verbose = ask(f"{url}/readyz?verbose")
    assert verbose.status == 200
    assert verbose.body.splitlines() == [
        "[+]started ok",
        "[+]registered ok",
        "[i]writable failed",
        "readyz check passed",
    ]
    checks[0] = Check("registered", is_ok=False, detail="LOST")
    late = ask(f"{url}/readyz")
    assert late.status == 503
    assert "[-]registered failed: LOST" in late.body
    detach()
    assert ask(f"{url}/readyz").status == 503


def test_metrics_and_version_are_served(url: str) -> None:
    metrics = ask(f"{url}/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'zbk_build_info{process="bookie"' in metrics.body
    assert "process_resident_memory_bytes" in metrics.body
    accepted = "application/openmetrics-text; version=1.0.0"
    open_metrics = ask(f"{url}/metrics", headers={"Accept": accepted})
    assert open_metrics.body.endswith("# EOF\n")
    for strange in ("x", "", "1.0.0; escaping=x", "0x1", "1e9, */*;q=x"):
        accepted = f"application/openmetrics-text; version={strange}"
        assert ask(f"{url}/metrics", headers={"Accept": accepted}).status == 200
    version = json.loads(ask(f"{url}/version").body)
    assert version["version"] == "1.2.3"
    assert abs(version["time_ms"] - wall_ms()) < 60_000
    assert ask(f"{url}/").body.split() == ["/metrics", "/livez", "/readyz", "/version"]
    assert ask(f"{url}/nothing").status == 404


def test_auto_takes_the_preferred_port_or_another_without_a_warning(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with serving(endpoint, "auto", port) as first:
        assert first == f"http://127.0.0.1:{port}"
        with serving(Endpoint("1", "bookie"), "auto", port) as second:
            assert second not in ("", first)
            assert ask(f"{second}/livez").body == "ok\n"
    assert all(record.levelno <= logging.INFO for record in caplog.records)


def test_the_version_of_metrics_is_that_of_zbk() -> None:
    assert zbk.__version__ == VERSION


def test_off_serves_nothing(endpoint: Endpoint) -> None:
    with serving(endpoint, "off", 0) as url:
        assert url == ""


def test_an_address_that_was_given_is_taken_or_an_error(endpoint: Endpoint) -> None:
    with serving(endpoint, "127.0.0.1:0", 0) as url:
        taken = url.removeprefix("http://")
        with pytest.raises(InvalidOptionError, match=taken), serving(endpoint, taken, 0):
            pass


def test_the_url_of_a_process_that_listens_everywhere_has_its_public_host(
    endpoint: Endpoint,
) -> None:
    with serving(endpoint, "0.0.0.0:0", 0, "b1.example.org") as url:
        assert url.startswith("http://b1.example.org:")


@pytest.mark.parametrize("value", ["", "9181", "localhost", ":9181", "a:-1", "a:70000", "a:x"])
def test_other_texts_are_no_address(value: str) -> None:
    with pytest.raises(InvalidOptionError, match="HOST:PORT"):
        parse_http(value)


@pytest.mark.parametrize(
    ("listen", "port"),
    [("tcp://0.0.0.0:3181", 9181), ("tcp://h:40000", 0), ("tcp://h:*", 0), ("ipc:///tmp/x", 0)],
)
def test_auto_prefers_a_port_only_if_the_bookie_has_a_fixed_one(listen: str, port: int) -> None:
    assert http_port_of(listen) == port
