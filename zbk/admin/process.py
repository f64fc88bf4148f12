"""Operations on this process, and the health of the whole cluster."""

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from zbk.admin.cluster import Cluster
from zbk.admin.jobs import JobProgress, shown_job
from zbk.admin.operation import Arguments
from zbk.config import AutorecoveryConfig, BookieConfig
from zbk.config.option import Option, options_of
from zbk.config.running import AUTORECOVERY, live_options
from zbk.errors import DamageError, InvalidOptionError
from zbk.security.credentials import own_credentials
from zbk.system.event_log import EventLog, Names
from zbk.version import __version__

SURVEY_TIMEOUT_S: Final = 5.0
LEVELS: Final = ("debug", "info", "warning", "error")

LIVE_OPTIONS: Final[dict[str, Option]] = {
    **{name: options_of(BookieConfig)[name] for name in live_options(BookieConfig)},
    **{
        f"{AUTORECOVERY}{name}": options_of(AutorecoveryConfig)[name]
        for name in live_options(AutorecoveryConfig)
    },
}
"""Options that a running bookie changes, and autorecovery beside it."""

FIXED_OPTIONS: Final = dict.fromkeys(
    (
        *(one for one in BookieConfig.__struct_fields__ if one not in LIVE_OPTIONS),
        *(
            name
            for one in AutorecoveryConfig.__struct_fields__
            if (name := f"{AUTORECOVERY}{one}") not in LIVE_OPTIONS
        ),
        "log_format",
    ),
    "needs a restart: change it in the configuration, then restart the bookie",
)
"""Options that a running bookie does not change, and why."""

LOG = EventLog("zbk.admin")


def cluster_status(cluster: Cluster, _given: Arguments) -> dict[str, Any]:
    """Return whether the cluster is healthy, and if not, why."""
    from zbk.health.cluster_health import findings  # noqa: PLC0415 - loads the client
    from zbk.health.cluster_survey import asking_as, survey_cluster  # noqa: PLC0415
    from zbk.health.finding import has_problem  # noqa: PLC0415

    ask = asking_as(own_credentials(cluster.security))
    found = findings(survey_cluster(cluster.metadata, SURVEY_TIMEOUT_S, ask))
    shown = [msgspec.to_builtins(one) for one in found]
    return {"is_healthy": not has_problem(found), "version": __version__, "findings": shown}


def check_metadata(cluster: Cluster, _given: Arguments) -> dict[str, Any]:
    """Begin to check all records of the metadata; return the job."""
    from zbk.metadata.dumps.store_check import problems_in  # noqa: PLC0415 - seldom used

    def work(progress: JobProgress, _is_stopped: threading.Event) -> bool:
        for one in problems_in(cluster.store):
            progress.note_left(msgspec.to_builtins(one))
        if progress.left_count:
            raise DamageError(f"{progress.left_count} records cannot be relied on; see left")
        return True

    return shown_job(cluster.jobs.begin("check metadata", {}, work))


def log_level(_cluster: Cluster, _given: Arguments) -> dict[str, str]:
    """Return the log level of this process."""
    level = logging.getLogger("zbk").getEffectiveLevel()
    return {"level": logging.getLevelName(level).lower()}


def set_log_level(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Set the log level of this process until it ends or SIGHUP re-reads the configuration."""
    LOG.warning("log.level", "the log level becomes %(wanted_level)s", wanted_level=given["level"])
    logging.getLogger("zbk").setLevel(given["level"].upper())
    return log_level(cluster, {})


def set_server_config(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Change what needs no restart; return what was changed."""
    wanted = {name: given[name] for name in LIVE_OPTIONS if given[name] is not None}
    level = given["log_level"]
    if level is None and not wanted:
        raise InvalidOptionError("options", "", "give one or more that need no restart")
    changed = {}
    if wanted:
        changed = _change(cluster, wanted)
        LOG.warning("config.changed", "options were changed: %(names)s", names=Names(wanted))
    if level is not None:
        changed["log_level"] = set_log_level(cluster, {"level": level})["level"]
    return changed


def _change(cluster: Cluster, wanted: Mapping[str, object]) -> dict[str, str]:
    """Change options of the bookie, and of autorecovery beside it: all of them, or none."""
    running, beside = cluster.running, cluster.autorecovery
    if running is None:
        reason = "the process has no bookie: ask at the address of the bookie"
        raise InvalidOptionError(", ".join(wanted), "", reason)
    others = {
        name.removeprefix(AUTORECOVERY): value
        for name, value in wanted.items()
        if name.startswith(AUTORECOVERY)
    }
    own = {name: value for name, value in wanted.items() if not name.startswith(AUTORECOVERY)}
    changed: dict[str, object] = {}
    if others and beside is None:
        reason = (
            "the bookie runs without --autorecovery; `zbk autorecovery run` re-reads its "
            "configuration at SIGHUP"
        )
        raise InvalidOptionError(AUTORECOVERY + ", ".join(others), "", reason)
    if others and beside is not None:
        running.check(own)
        found = beside.change(others)
        changed |= {f"{AUTORECOVERY}{name}": value for name, value in found.items()}
    if own:
        changed |= running.change(own)
    return {name: str(changed[name]) for name in wanted}
