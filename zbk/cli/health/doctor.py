"""``zbk doctor``: checks of this machine and of its way to the cluster."""

from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.config_options import config_options, offline_config, security_options, take_security
from zbk.cli.health.report import finding_rows, finish, health_timeout_option, print_findings
from zbk.cli.options import output_option
from zbk.cli.output import Format, print_json, print_object, print_rows, size_text
from zbk.config import BookieConfig

if TYPE_CHECKING:
    from zbk.health.machine_health import DirectoryFacts, MachineFacts


@click.command(
    "doctor",
    cls=ZbkCommand,
    examples=[
        ("zbk doctor --config /etc/zbk/bookie.toml", "before a bookie starts, or when it is slow"),
        ("zbk doctor -o json", "for machines"),
    ],
)
@health_timeout_option
@config_options(BookieConfig, ("journal_dir", "ledger_dir", "listen"))
@security_options("key", "security")
@output_option
def doctor(
    timeout_ms: int,
    output: Format,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Check this machine and its way to the cluster.

    Versions, limits, clock, memory settings, the directories of a bookie with a short measurement
    of fsync, its port, the metadata store, the bookies and their clocks. Each problem is one line
    with its remedy, and the exit code is then 10. Nothing is changed.
    """
    from zbk.health.cluster_survey import asking_as
    from zbk.health.machine_health import findings
    from zbk.health.machine_survey import survey_machine
    from zbk.security.credentials import own_credentials

    security = take_security(options)
    config, error = _config(options)
    facts = survey_machine(config, timeout_ms / 1_000, error, asking_as(own_credentials(security)))
    found = findings(facts)
    if output == "json":
        import msgspec

        is_healthy = not any(one.is_problem for one in found)
        shown = msgspec.to_builtins(facts)
        print_json({"is_healthy": is_healthy, **shown, "findings": finding_rows(found)})
    else:
        _print_screen(facts)
        print_findings(found)
        if not found:
            click.echo("\nno problem found")
    finish(found)


def _config(options: dict[str, Any]) -> tuple[BookieConfig, str]:
    """Return the configuration, completed by the running `zbk up`, and why that cannot be used."""
    from zbk.errors import InvalidOptionError
    from zbk.system.context import find_context, read_context

    config = offline_config(BookieConfig, options)
    if config.metadata:
        return config, ""
    try:
        address = read_context()
        context = find_context()
    except InvalidOptionError as error:
        return config, str(error)
    if not address or context is None:
        return config, ""
    known: dict[str, Any] = {"metadata": address}
    if not (config.journal_dir or config.ledger_dir):
        known["ledger_dir"] = context.data_dir
    return offline_config(BookieConfig, options | known), ""


def _print_screen(facts: "MachineFacts") -> None:
    soft, hard = (
        "unlimited" if count is None else f"{count:,}"
        for count in (facts.soft_descriptor_count, facts.hard_descriptor_count)
    )
    clock = {True: "synchronized", False: "not synchronized", None: "unknown"}
    screen = {
        "versions": f"zbk {facts.zbk}, Python {facts.python}, "
        + ", ".join(f"{one.name} {one.installed or '-'}" for one in facts.packages),
        "descriptors": f"{soft} (hard limit {hard})",
        "clock": f"{facts.clock_source or '-'}, {clock[facts.is_clock_synchronized]}",
        "memory": f"huge pages {facts.huge_pages or '-'}, swap in use "
        f"{size_text(facts.used_swap_size)}",
    }
    for port in facts.ports:
        by = f"{port.use.pid} {port.use.command}" if port.use.pid else "unknown"
        state = "free" if port.use.is_free else port.use.reason or f"in use by {by}"
        screen["port"] = f"{port.address} {state}"
    if facts.metadata and not facts.metadata_error:
        screen["metadata"] = f"{facts.metadata}, a read takes {facts.store_latency_ms:.1f} ms"
        versions = sorted({one.wire_version for one in facts.links if one.wire_version})
        reached = sum(not one.error for one in facts.links)
        screen["bookies"] = f"{reached:,} of {len(facts.links):,} reached, wire version " + (
            ", ".join(map(str, versions)) or "-"
        )
        offsets = [one.clock_offset_ms for one in facts.links if one.clock_offset_ms is not None]
        if offsets:
            screen["bookie clocks"] = (
                f"{min(offsets):+,} to {max(offsets):+,} ms from this machine's, "
                f"{len(offsets):,} of {len(facts.links):,} known"
            )
    for server in facts.servers:
        what = server.error or (
            f"{server.version}, {server.mode}, answers in {server.connect_ms:.1f} ms, "
            f"latency {server.latency_avg_ms:.1f} ms"
        )
        screen[f"zookeeper {server.address}"] = what
    print_object(screen, "table")
    if facts.directories:
        click.echo()
        columns = ["directory", "file_system", "free", "reserve", "fsync_p50", "fsync_p99"]
        print_rows(map(_directory_row, facts.directories), columns, "table")


def _directory_row(one: "DirectoryFacts") -> dict[str, Any]:
    if one.error:
        blank = dict.fromkeys(["file_system", "free", "reserve", "fsync_p50", "fsync_p99"])
        return {"directory": one.path} | blank
    return {
        "directory": one.path,
        "file_system": one.file_system,
        "free": size_text(one.free_size),
        "reserve": one.has_reserve,
        "fsync_p50": f"{one.fsync_p50_ms:.1f} ms",
        "fsync_p99": f"{one.fsync_p99_ms:.1f} ms",
    }
