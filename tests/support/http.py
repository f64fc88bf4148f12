"""Asking the HTTP endpoint of a process, as Prometheus and a probe do."""

import http.client
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 20.0

_HTTP = re.compile(r"http://[0-9a-zA-Z.\[\]:-]+")


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: str
    headers: Mapping[str, str]


def ask(
    url: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
    try:
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, target, body, headers=dict(headers or {}))
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, response.read().decode(), names)
    finally:
        connection.close()


def url_in(line: str) -> str:
    """Return the URL that a line of a log names."""
    found = _HTTP.search(line)
    assert found is not None, line
    return found[0]


class Scrape:
    """What one scrape of ``/metrics`` has."""

    def __init__(self, url: str) -> None:
        answer = ask(f"{url}/metrics")
        assert answer.status == 200, answer.body
        self.families = list(text_string_to_metric_families(answer.body))

    def names(self) -> set[str]:
        """Return the names of zbk's metrics, as the table has them."""
        found = set()
        for family in self.families:
            ending = {"counter": "_total", "info": "_info"}.get(family.type, "")
            found.add(family.name if family.name.endswith(ending) else family.name + ending)
        return {name for name in found if name.startswith("zbk_")}

    def value(self, sample_name: str, **labels: str) -> float:
        """Return the sum of the samples with this name and at least these labels."""
        found = [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == sample_name and labels.items() <= sample.labels.items()
        ]
        assert found, f"no sample {sample_name} with {labels}"
        return sum(found)

    def total(self, name: str) -> float:
        """Return the sum over all series of a metric of the table; of a histogram, its count."""
        for family in self.families:
            if family.name in (name, name.removesuffix("_total")):
                wanted = f"{name}_count" if family.type == "histogram" else name
                return sum(one.value for one in family.samples if one.name == wanted)
        raise AssertionError(f"no metric {name}")
