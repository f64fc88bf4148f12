"""A bookie as a process, with the re-check of its ledgers and autorecovery beside it."""

from collections.abc import Callable

from zbk.actors.process import bookie_process
from zbk.actors.process.bookie import Bookie
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.process import Autorecovery, connection_of
from zbk.auditor.recheck import LimboRecheck
from zbk.config import NO_SECURITY, AutorecoveryConfig, BookieConfig, SecurityConfig
from zbk.config.http_address import host_of, http_port_of
from zbk.config.running import RunningOptions
from zbk.metadata.values import BookieRegistration
from zbk.metrics.endpoint import Endpoint
from zbk.metrics.serving import MoreRoutes, serving
from zbk.system.files import FileSystem
from zbk.version import __version__


def run_bookie(
    config: BookieConfig,
    *,
    on_ready: Callable[[BookieRegistration], None],
    on_started: Callable[[Bookie], None] = lambda _bookie: None,
    is_wiped_on_purpose: bool = False,
    autorecovery: RunningOptions[AutorecoveryConfig] | None = None,
    files: FileSystem | None = None,
    more_routes: MoreRoutes | None = None,
    security: SecurityConfig = NO_SECURITY,
) -> int:
    """Serve in this process until SIGTERM or SIGINT, as ``bookie_process.run_bookie``.

    A bookie that may have lost entries checks its ledgers against its peers meanwhile. With
    the options ``autorecovery`` the process also audits and repairs: autorecovery ends with the
    bookie, but the bookie does not end with autorecovery. ``on_started`` is called with each bookie
    that starts in the process, before ``on_ready``. ``more_routes`` as in ``serving``. ``security``
    has the key of all parts of the process.

    Raises:
        ZbkError: it cannot start.
    """

    def begin_recheck(bookie: Bookie, bookie_id: str) -> None:
        if not bookie.losses.reasons:
            return
        recheck = LimboRecheck(
            bookie.losses,
            bookie_id,
            lambda: ClusterConnection(config.metadata, security.for_clients),
            grace_ms=config.limbo_grace_ms,
            on_failure=bookie.fail,
        )
        bookie.goes_with(recheck.stop)
        recheck.start()

    endpoint = (
        Endpoint(__version__, "bookie")
        if autorecovery is None
        else Endpoint(__version__, "bookie", "autorecovery")
    )

    def autorecovery_of(bookie_id: str, options: AutorecoveryConfig) -> Autorecovery:
        return Autorecovery(options, bookie_id, lambda: connection_of(options, security))

    def begin(bookie: Bookie, bookie_id: str) -> None:
        metrics = bookie.metrics()
        bookie.goes_with(endpoint.attach("the bookie", metrics.read, metrics.checks))
        begin_recheck(bookie, bookie_id)
        on_started(bookie)
        if autorecovery is not None:
            beside = autorecovery_of(bookie_id, autorecovery.config)
            autorecovery.begin(autorecovery.config, beside.change_options)
            bookie.goes_with(beside.stop)
            bookie.goes_with(endpoint.attach("autorecovery", beside.read_metrics, beside.checks))
            beside.start()

    public_host = host_of(config.advertise or config.listen)
    with serving(
        endpoint, config.http, http_port_of(config.listen), public_host, more_routes
    ) as http:
        return bookie_process.run_bookie(
            config,
            on_ready=on_ready,
            on_started=begin,
            is_wiped_on_purpose=is_wiped_on_purpose,
            files=files,
            http=http,
            security=security,
        )
