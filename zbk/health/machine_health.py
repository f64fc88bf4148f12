"""The health of a machine and of its way to a cluster: facts, and the rule that judges them. Pure.

``findings`` decides. ``zbk.health.machine_survey`` gathers the facts.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from zbk.config.units import FreeLimit
from zbk.health.finding import Finding, counted, named
from zbk.health.zookeeper_health import of_outdated
from zbk.metadata.stores.zookeeper_server import ServerAnswer
from zbk.system.exposure import Exposure
from zbk.system.ports import PortUse
from zbk.wire.messages import VERSION_MAX

DESCRIPTOR_COUNT_MIN: Final = 1_024
DESCRIPTOR_COUNT_GOOD: Final = 8_192
"""With so many descriptors a bookie accepts all clients that its defaults allow."""

FSYNC_MS_MAX: Final = 50.0
"""p99 of an fsync above which appends are slow for most uses."""

STORE_MS_MAX: Final = 100.0

CLOCK_OFFSET_MS_MAX: Final = 1_000
"""Above this, log lines of two hosts appear in the wrong order to a reader."""

VOLATILE_FILE_SYSTEMS: Final = frozenset({"tmpfs", "ramfs"})
NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs"})
SLOW_CLOCK_SOURCES: Final = frozenset({"acpi_pm", "hpet", "jiffies", "pit"})


class PackageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A package that zbk needs; ``installed`` is empty if it is not there."""

    name: str
    installed: str
    required: str  # the lowest version; empty: any


class DirectoryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One directory of a bookie. Sizes in bytes. With ``error`` only the path is known."""

    path: str
    error: str = ""
    file_system: str = ""
    free_size: int = 0
    total_size: int = 0
    has_reserve: bool = False
    fsync_p50_ms: float = 0.0
    fsync_p99_ms: float = 0.0
    exposures: tuple[Exposure, ...] = ()


class PortFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An address that a bookie is to listen on."""

    address: str
    use: PortUse


class LinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The way to one bookie."""

    bookie_id: str
    address: str
    error: str = ""
    wire_version: int = 0
    clock_offset_ms: int | None = None  # ahead of this machine; ``None``: the bookie tells no time


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of this machine, and of the cluster as seen from it."""

    python: str
    zbk: str
    packages: tuple[PackageFacts, ...] = ()
    soft_descriptor_count: int | None = None  # ``None`` is no limit
    hard_descriptor_count: int | None = None
    clock_source: str = ""
    is_clock_synchronized: bool | None = None
    huge_pages: str = ""
    used_swap_size: int = 0
    directories: tuple[DirectoryFacts, ...] = ()
    warn_free: FreeLimit = FreeLimit()
    readonly_free: FreeLimit = FreeLimit()
    ports: tuple[PortFacts, ...] = ()
    metadata: str = ""  # empty: no cluster is configured
    metadata_error: str = ""
    store_latency_ms: float = 0.0
    servers: tuple[ServerAnswer, ...] = ()  # of ZooKeeper
    links: tuple[LinkFacts, ...] = ()


def findings(facts: MachineFacts) -> list[Finding]:
    """Return everything that is wrong, or worth knowing, problems first."""
    found = [
        *_of_packages(facts),
        *_of_kernel(facts),
        *(one for directory in facts.directories for one in _of_directory(directory, facts)),
        *(one for port in facts.ports for one in _of_port(port)),
        *_of_metadata(facts),
        *_of_links(facts),
        *_of_clocks(facts),
    ]
    return sorted(found, key=lambda one: not one.is_problem)


# ------------------------------------------------------------------ private


def _of_packages(facts: MachineFacts) -> Iterator[Finding]:
    for one in facts.packages:
        if not one.installed or version_key(one.installed) < version_key(one.required):
            need = f"{one.name}>={one.required}" if one.required else one.name
            yield Finding(
                kind="package-unfit",
                what=f"{need} is needed, {one.installed or 'nothing'} is installed",
                consequence="zbk may fail where it uses the package",
                command=f"pip install '{need}'",
                subjects=(one.name,),
            )


def version_key(version: str) -> tuple[int, ...]:
    """Return what orders versions, from their leading numbers.

    >>> version_key("26.2.1rc1") > version_key("9.10"), version_key("")
    (True, ())
    """
    numbers: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _of_kernel(facts: MachineFacts) -> Iterator[Finding]:
    hard = facts.hard_descriptor_count
    if hard is not None and hard < DESCRIPTOR_COUNT_GOOD:
        yield Finding(
            kind="descriptors-few",
            what=f"the hard limit of file descriptors is {hard:,}",
            consequence="a bookie accepts fewer clients than connection_count_max",
            command="`ulimit -Hn 65536`, or LimitNOFILE=65536 in the systemd unit",
            is_problem=hard < DESCRIPTOR_COUNT_MIN,
        )
    if facts.clock_source in SLOW_CLOCK_SOURCES:
        yield Finding(
            kind="clock-slow",
            what=f"the clock source is {facts.clock_source}",
            consequence="each look at the time is a slow access to hardware",
            command="echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            is_problem=False,
        )
    if facts.is_clock_synchronized is False:
        yield Finding(
            kind="clock-free",
            what="the clock does not follow a time server",
            consequence="times in the logs of hosts cannot be compared; no data depends on it",
            command="start chronyd or systemd-timesyncd",
            is_problem=False,
        )
    if facts.huge_pages == "always":
        yield Finding(
            kind="huge-pages",
            what="transparent huge pages are always on",
            consequence="a bookie uses more memory, and pauses while pages are merged",
            command="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            is_problem=False,
        )
    if facts.used_swap_size:
        yield Finding(
            kind="swap-used",
            what=f"{facts.used_swap_size >> 20:,} MiB of swap are in use",
            consequence="a bookie whose memory is swapped out answers late",
            command="vm.swappiness=1, or more memory",
            is_problem=False,
        )


def _of_directory(one: DirectoryFacts, facts: MachineFacts) -> Iterator[Finding]:
    def finding(
        kind: str, what: str, consequence: str, command: str, *, is_problem: bool = True
    ) -> Finding:
        return Finding(
            kind=kind,
            what=f"{one.path} {what}",
            consequence=consequence,
            command=command,
            is_problem=is_problem,
            subjects=(one.path,),
        )

    if one.error:
        yield finding(
            "directory-unusable",
            f"cannot be used ({one.error})",
            "the bookie cannot start",
            "`zbk bookie init` makes directories; mount the disk, or give access to it",
        )
        return
    if one.file_system in VOLATILE_FILE_SYSTEMS:
        yield finding(
            "directory-volatile",
            f"is on {one.file_system}",
            "all data are lost when the machine restarts",
            "move it to a disk",
        )
    if one.file_system in NETWORK_FILE_SYSTEMS:
        yield finding(
            "directory-remote",
            f"is on {one.file_system}",
            "an fsync crosses the network, and a server that restarts may lose what it promised",
            "move it to a local disk",
        )
    for kind, limit, consequence in (
        ("disk-full", facts.readonly_free, "a bookie there takes no new entries"),
        ("disk-low", facts.warn_free, "a bookie there will soon take no new entries"),
    ):
        if one.free_size < limit.of(one.total_size):
            free = f"has {one.free_size >> 20:,} MiB free"
            yield finding(kind, free, consequence, "delete ledgers or files, or add a disk")
            break
    for exposure in one.exposures:
        yield Finding(
            kind="directory-exposed",
            what=f"{exposure.path} {exposure.why}",
            consequence="other users of this machine can read or replace data of a bookie",
            command=exposure.remedy,
            subjects=(one.path,),
        )
    if one.fsync_p99_ms > FSYNC_MS_MAX:
        yield finding(
            "fsync-slow",
            f"takes {one.fsync_p99_ms:.0f} ms for an fsync (p99)",
            "each acknowledged append of a PD ledger waits so long",
            "use a disk of its own for the journal, best an SSD",
        )


def _of_port(one: PortFacts) -> Iterator[Finding]:
    if one.use.is_free or "zbk" in one.use.command:  # a bookie that runs has its own port
        return
    if one.use.reason:
        yield Finding(
            kind="address-unusable",
            what=f"{one.address} cannot be listened on ({one.use.reason})",
            consequence="the bookie cannot start",
            command="--listen with an address of this machine, such as tcp://127.0.0.1:3181",
            subjects=(one.address,),
        )
        return
    known = f"process {one.use.pid}: {one.use.command}" if one.use.pid else "an unknown process"
    yield Finding(
        kind="port-in-use",
        what=f"{one.address} is in use by {known}",
        consequence="a bookie that is to listen there cannot start",
        command="stop that process, or choose another port with --listen",
        is_problem=one.use.pid is not None,  # else it may be the bookie of another user
        subjects=(one.address,),
    )


def _of_metadata(facts: MachineFacts) -> Iterator[Finding]:
    if facts.metadata_error:
        yield Finding(
            kind="store-unreachable",
            what=f"the cluster cannot be reached ({facts.metadata_error})",
            consequence="bookies and clients on this machine cannot start",
            command="check --metadata, the network, and that the store runs",
        )
    elif not facts.metadata:
        yield Finding(
            kind="no-cluster",
            what="no cluster is configured",
            consequence="the way to the metadata store and to bookies was not checked",
            command="--metadata URI, ZBK_METADATA, or `zbk up`",
            is_problem=False,
        )
    if facts.store_latency_ms > STORE_MS_MAX:
        yield Finding(
            kind="store-slow",
            what=f"the metadata store takes {facts.store_latency_ms:.0f} ms for a read",
            consequence="ledgers open and close slowly, and sessions may be lost",
            command="give ZooKeeper a disk of its own; check the network",
        )
    for server in facts.servers:
        if server.error:
            yield Finding(
                kind="server-unreachable",
                what=f"ZooKeeper server {server.address} gives no answer ({server.error})",
                consequence="the ensemble tolerates fewer failures",
                command=f"start the server, or remove {server.address} from the address",
                # a server may forbid srvr and serve sessions
                is_problem="srvr" not in server.error,
                subjects=(server.address,),
            )
    yield from of_outdated(facts.servers)


def _of_links(facts: MachineFacts) -> Iterator[Finding]:
    silent = tuple(one.bookie_id for one in facts.links if one.error)
    if silent:
        reason = next(one.error for one in facts.links if one.error)
        yield Finding(
            kind="bookies-unreachable",
            what=f"{counted(len(silent), 'bookie')} cannot be reached: {named(silent)} ({reason})",
            consequence="clients on this machine cannot use them",
            command="check the network and the firewall; `zbk status` shows the cluster's view",
            subjects=silent,
        )
    old = tuple(one.bookie_id for one in facts.links if 0 < one.wire_version < VERSION_MAX)
    if old:
        yield Finding(
            kind="bookies-old",
            what=f"{counted(len(old), 'bookie')} with an older wire protocol: {named(old)}",
            consequence="requests to them are not bundled, which costs speed",
            command="upgrade them; `zbk bookie ls` shows versions",
            is_problem=False,
            subjects=old,
        )


def _of_clocks(facts: MachineFacts) -> Iterator[Finding]:
    """Yield what is wrong with clocks: with this one, if most bookies differ from it."""
    known = {
        one.bookie_id: one.clock_offset_ms for one in facts.links if one.clock_offset_ms is not None
    }
    if not known:
        return
    common_ms = sorted(known.values())[len(known) // 2] if len(known) > 2 else 0
    consequence = (
        "ages of ledgers, the ends of loads, the next checks of the auditor and the times in logs "
        "are wrong; no acknowledged entry is at risk"
    )
    if abs(common_ms) > CLOCK_OFFSET_MS_MAX:
        yield Finding(
            kind="clock-off",
            what=f"this clock is {_apart(-common_ms)} the clocks of most bookies",
            consequence=consequence,
            command="`chronyc makestep` here, and a time server that chronyd follows",
        )
    else:
        common_ms = 0
    wrong = {one: ms - common_ms for one, ms in known.items()}
    wrong = {one: ms for one, ms in wrong.items() if abs(ms) > CLOCK_OFFSET_MS_MAX}
    if wrong:
        bookies = tuple(sorted(wrong, key=lambda one: -abs(wrong[one])))
        against = "the other bookies" if common_ms else "this machine"
        yield Finding(
            kind="bookie-clocks-off",
            what=f"{counted(len(wrong), 'bookie')} with another time: {named(bookies)} "
            f"(up to {_apart(wrong[bookies[0]])} {against})",
            consequence=consequence,
            command="`chronyc makestep` on their hosts, and a time server that chronyd follows",
            subjects=bookies,
        )


def _apart(offset_ms: int) -> str:
    """Return an offset in words.

    >>> _apart(1_500), _apart(-90_000)
    ('1.5 s ahead of', '90.0 s behind')
    """
    return f"{abs(offset_ms) / 1_000:,.1f} s {'ahead of' if offset_ms > 0 else 'behind'}"
