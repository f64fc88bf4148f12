"""The survey of this machine: reads settings, measures directories, and tries the cluster.

It changes nothing: the probe of a disk has no name and leaves no file.
"""

import os
import platform
import re
from importlib import metadata as distributions

import msgspec

import zbk
from zbk.config import BookieConfig
from zbk.config.units import parse_free
from zbk.errors import InvalidOptionError
from zbk.health.bookie_infos import ask_bookies
from zbk.health.clock_offsets import clock_offsets_ms
from zbk.health.cluster_survey import AskBookies, survey_cluster
from zbk.health.machine_health import (
    DirectoryFacts,
    LinkFacts,
    MachineFacts,
    PackageFacts,
    PortFacts,
)
from zbk.metadata.stores.zookeeper_address import is_zookeeper, parse_address
from zbk.metadata.stores.zookeeper_server import ServerAnswer, ask_servers
from zbk.storage.directory.disk_reserve import RESERVE_NAME
from zbk.system import machine
from zbk.system.exposure import exposures_of
from zbk.system.files import OsFiles
from zbk.system.fsync_probe import fsync_times_us
from zbk.system.ports import PortUse, port_use

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?:>=\s*([0-9.]+))?")
_LISTEN = re.compile(r"tcp://(.+):(\d+)")


def survey_machine(
    config: BookieConfig,
    timeout_s: float,
    metadata_error: str = "",
    ask: AskBookies = ask_bookies,
) -> MachineFacts:
    """Return the facts of this machine for a bookie with this configuration.

    ``metadata_error``: why the configuration has no metadata store, if something is wrong there.
    ``ask`` as in ``survey_cluster``.
    """
    soft, hard = machine.descriptor_limits()
    facts = MachineFacts(
        python=platform.python_version(),
        zbk=zbk.__version__,
        packages=tuple(_packages()),
        soft_descriptor_count=soft,
        hard_descriptor_count=hard,
        clock_source=machine.clock_source(),
        is_clock_synchronized=machine.is_clock_synchronized(),
        huge_pages=machine.huge_pages(),
        used_swap_size=machine.used_swap_size(),
        directories=tuple(map(_directory, (*config.journal_dirs, *config.ledger_dirs))),
        warn_free=parse_free(config.disk_warn_free),
        readonly_free=parse_free(config.disk_readonly_free),
        ports=(PortFacts(address=config.listen, use=_port(config.listen)),),
        metadata_error=metadata_error,
    )
    return _with_cluster(facts, config.metadata, timeout_s, ask) if config.metadata else facts


def _packages() -> list[PackageFacts]:
    try:
        requirements = distributions.requires("zbk") or []
    except distributions.PackageNotFoundError:  # a source tree that was not installed
        return []
    found = []
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None or ";" in requirement:  # of an extra
            continue
        try:
            installed = distributions.version(match[1])
        except distributions.PackageNotFoundError:
            installed = ""
        found.append(PackageFacts(name=match[1], installed=installed, required=match[2] or ""))
    return found


def _directory(path: str) -> DirectoryFacts:
    files = OsFiles()
    try:
        times_us = fsync_times_us(path)
        free_size, total_size = files.free_size(path), files.total_size(path)
    except OSError as error:
        return DirectoryFacts(path=path, error=error.strerror or str(error))
    return DirectoryFacts(
        path=path,
        file_system=machine.file_system(path),
        exposures=tuple(exposures_of(path, os.geteuid())),
        free_size=free_size,
        total_size=total_size,
        has_reserve=files.exists(os.path.join(path, RESERVE_NAME)),  # noqa: PTH118 - a string
        fsync_p50_ms=round(times_us[len(times_us) // 2] / 1_000, 3),
        fsync_p99_ms=round(times_us[len(times_us) * 99 // 100] / 1_000, 3),
    )


def _port(listen: str) -> PortUse:
    match = _LISTEN.fullmatch(listen)
    if match is None or not 0 < int(match[2]) < 65_536:
        return PortUse(is_free=False, reason="not of the form tcp://host:port")
    return port_use(match[1], int(match[2]))


def _with_cluster(
    facts: MachineFacts, metadata: str, timeout_s: float, ask: AskBookies
) -> MachineFacts:
    servers: tuple[ServerAnswer, ...] = ()
    try:
        if is_zookeeper(metadata):
            servers = tuple(ask_servers(parse_address(metadata), timeout_s))
        cluster = survey_cluster(metadata, timeout_s, ask)
    except InvalidOptionError as error:
        return msgspec.structs.replace(
            facts, metadata=metadata, metadata_error=str(error), servers=servers
        )
    offsets_ms = clock_offsets_ms({one.bookie_id: one.http for one in cluster.bookies})
    links = (
        LinkFacts(
            bookie_id=one.bookie_id,
            address=one.address,
            error=one.silence,
            wire_version=one.wire_version,
            clock_offset_ms=offsets_ms.get(one.bookie_id),
        )
        for one in cluster.bookies
    )
    return msgspec.structs.replace(
        facts,
        metadata=metadata,
        metadata_error=cluster.store_error,
        store_latency_ms=cluster.store_latency_ms,
        servers=servers,
        links=tuple(links),
    )
