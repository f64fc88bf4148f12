"""``zbk autorecovery enable``, ``disable``, ``trigger`` and ``delay``: its switches."""

from typing import TYPE_CHECKING

import click

from zbk.cli.command import command
from zbk.cli.options import metadata_option, output_option
from zbk.cli.output import Format, note, print_object
from zbk.cli.store import cluster_store

if TYPE_CHECKING:
    from zbk.metadata.stores.store import MetadataStore


@command("enable", ("zbk autorecovery enable", "after `zbk autorecovery disable`"))
@metadata_option
@output_option
def enable(metadata: str | None, output: Format) -> None:
    """Enable autorecovery in the whole cluster."""
    from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches

    with cluster_store(metadata) as store:
        AutorecoverySwitches(store).enable()
        _print_state(store, output)
        _note_if_no_auditor(store)


@command("disable", ("zbk autorecovery disable", "before bookies are upgraded one by one"))
@metadata_option
@output_option
def disable(metadata: str | None, output: Format) -> None:
    """Disable autorecovery in the whole cluster.

    Auditors and workers begin nothing until it is enabled again. Workers finish their current
    ledgers.
    """
    from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches

    with cluster_store(metadata) as store:
        AutorecoverySwitches(store).disable()
        _print_state(store, output)
    note("zbk: autorecovery is disabled in the whole cluster until `zbk autorecovery enable`")


@command("trigger", ("zbk autorecovery trigger", "without waiting for the delay or the next check"))
@metadata_option
@output_option
def trigger(metadata: str | None, output: Format) -> None:
    """Look for lost bookies now.

    The auditor reads the metadata of all ledgers and reports those of missing bookies, without the
    delay. Ledgers that could not be repaired are tried again.
    """
    from zbk.metadata.records.underreplication import UnderreplicationStore

    with cluster_store(metadata) as store:
        tasks = UnderreplicationStore(store)
        tasks.trigger()
        _print_state(store, output)
        if not tasks.is_enabled():
            note("zbk: autorecovery is disabled: the search begins after `zbk autorecovery enable`")
        _note_if_no_auditor(store)


@command(
    "delay",
    ("zbk autorecovery delay", "show it"),
    ("zbk autorecovery delay 10min", "set it for the whole cluster"),
    ("zbk autorecovery delay default", "use each auditor's configuration"),
)
@click.argument("duration", metavar="[DURATION|default]", default="")
@metadata_option
@output_option
def delay(duration: str, metadata: str | None, output: Format) -> None:
    """Set how long one lost bookie has to return.

    Two or more bookies lost at the same time are handled without a delay. The value counts for the
    whole cluster and overrides the configuration of its auditors.
    """
    from zbk.config.units import parse_duration_ms
    from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches

    with cluster_store(metadata) as store:
        switches = AutorecoverySwitches(store)
        if duration == "default":
            switches.set_lost_bookie_delay_ms(None)
        elif duration:
            switches.set_lost_bookie_delay_ms(parse_duration_ms(duration))
        else:
            print_object({"lost_bookie_delay_ms": switches.lost_bookie_delay_ms()}, output)


# ------------------------------------------------------------------ private


def _print_state(store: "MetadataStore", output: Format) -> None:
    """Print the state of autorecovery as JSON; people read the notes."""
    if output == "json":
        from zbk.metadata.records.election import read_auditor
        from zbk.metadata.records.underreplication import UnderreplicationStore

        vote = read_auditor(store)
        is_enabled = UnderreplicationStore(store).is_enabled()
        print_object({"enabled": is_enabled, "auditor": vote and vote.candidate_id}, output)


def _note_if_no_auditor(store: "MetadataStore") -> None:
    from zbk.metadata.records.election import read_auditor

    if read_auditor(store) is None:
        note("zbk: no process audits now: start `zbk autorecovery run`")
