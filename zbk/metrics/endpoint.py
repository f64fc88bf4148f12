"""The HTTP endpoint of one process: ``/metrics``, ``/livez``, ``/readyz``, ``/version``.

A process opens its endpoint before it starts its parts, so that a probe sees a long start. A part
that has started is *attached*, with its source and its checks, until it ends. Until the first part
is attached the process is alive and not ready.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, ProcessCollector

from zbk.metrics.build import build_fields
from zbk.metrics.checks import Check, CheckSource
from zbk.metrics.collector import TableCollector
from zbk.metrics.metric import Process
from zbk.metrics.samples import Samples, Source
from zbk.metrics.table import metrics_of


class Endpoint:
    """The parts of a process as HTTP clients see them. Any thread may attach and detach."""

    def __init__(self, version: str, *processes: Process) -> None:
        """``processes``: what runs in this process, the main part first."""
        self._process = processes[0]
        self.cluster_id: Callable[[], str] = str
        """Returns the instance id of the cluster; "" while it is not known. It never waits."""
        self._version = version
        self._sources: dict[str, Source] = {"the build": self._read_build}
        self._checks: dict[str, CheckSource] = {}
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(TableCollector(metrics_of(*processes), self._sources))
        ProcessCollector(registry=self.registry)

    def attach(self, name: str, source: Source, checks: CheckSource) -> Callable[[], None]:
        """Add a part that has started; return the function that removes it."""
        self._sources[name] = source
        self._checks[name] = checks

        def detach() -> None:
            self._sources.pop(name, None)
            self._checks.pop(name, None)

        return detach

    def ready_checks(self) -> list[Check]:
        """Return the checks of ``/readyz``."""
        found = list(self._checks.values())
        started = Check("started", is_ok=bool(found), detail="" if found else "not yet")
        return [started, *(check for checks in found for check in checks())]

    def version_fields(self) -> dict[str, str]:
        """Return the fields of ``/version``."""
        return build_fields(self._process, self._version)

    def _read_build(self, samples: Samples) -> None:
        samples.put_info("zbk_build_info", self.version_fields())
