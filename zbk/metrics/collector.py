"""The families of a process, made for each scrape from what its sources give.

Every metric of the table for this kind of process is there, whether a source has given a value or
not. A source that fails costs its values of this scrape, not the scrape.

Any thread may collect.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client import Metric as Family
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from zbk.metrics.buckets import Buckets
from zbk.metrics.metric import Metric
from zbk.metrics.samples import Samples, Source
from zbk.system.event_log import EventLog

Registry: TypeAlias = CollectorRegistry
"""Where collectors are registered, as prometheus-client has it."""

LOG = EventLog("zbk.metrics")


class TableCollector(Collector):
    """Collects the metrics of ``table`` from ``sources``, which may change while it is used."""

    def __init__(self, table: Sequence[Metric], sources: Mapping[str, Source]) -> None:
        self._table = table
        self._by_name = {metric.name: metric for metric in table}
        self._sources = sources

    def describe(self) -> Iterable[Family]:
        """Return the families without values: a registry checks their names."""
        return [_family(metric, Samples()) for metric in self._table]

    def collect(self) -> Iterator[Family]:
        """Yield a family for each metric of the table."""
        samples = self._gather()
        for metric in self._table:
            yield _family(metric, samples)

    def _gather(self) -> Samples:
        gathered = Samples()
        for name, source in list(self._sources.items()):
            try:
                source(gathered)
            except Exception:
                LOG.exception(
                    "metrics.missing",
                    "the metrics of %(source)s are missing from a scrape",
                    source=name,
                )
        given = {*gathered.values, *gathered.histograms, *gathered.infos}
        assert given <= self._by_name.keys(), f"not in the table: {given - self._by_name.keys()}"
        return gathered


def _family(metric: Metric, samples: Samples) -> Family:
    names = list(metric.labels)
    known = list(product(*metric.labels.values()))  # none if a label has no values of its own
    match metric.kind:
        case "info":
            info = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
            info.add_metric([], dict(samples.infos.get(metric.name, {})))
            return info
        case "histogram":
            empty = Buckets()
            found = dict.fromkeys(known, empty) | samples.histograms.get(metric.name, {})
            histogram = HistogramMetricFamily(metric.name, metric.help, labels=names)
            for labels, buckets in found.items():
                histogram.add_metric(list(labels), buckets.cumulative(), buckets.sum_s)
            return histogram
        case "counter" | "gauge":
            values = dict.fromkeys(known, 0.0) | samples.values.get(metric.name, {})
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = make(metric.name, metric.help, labels=names)
            for labels, value in values.items():
                family.add_metric(list(labels), value)
            return family
