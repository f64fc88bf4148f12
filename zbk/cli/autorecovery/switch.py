"""``zbk autorecovery enable|disable|trigger|delay``: what operators tell it."""

from typing import TYPE_CHECKING

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.options import metadata_option, output_option
from zbk.cli.output import Format, note, print_object
from zbk.cli.store import cluster_store

if TYPE_CHECKING:
    from zbk.metadata.stores.store import MetadataStore


@click.command(
    "enable",
    cls=ZbkCommand,
    examples=[("zbk autorecovery enable", "after `zbk autorecovery disable`")],
)
@metadata_option
@output_option
def enable(metadata: str | None, output: Format) -> None:
    """Enable autorecovery, all over the cluster."""
    from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches

    with cluster_store(metadata) as store:
        AutorecoverySwitches(store).enable()
        _print_state(store, output)
        _note_if_nobody_audits(store)


@click.command(
    "disable",
    cls=ZbkCommand,
    examples=[("zbk autorecovery disable", "before bookies are upgraded one by one")],
)
@metadata_option
@output_option
def disable(metadata: str | None, output: Format) -> None:
    """Disable autorecovery, all over the cluster.

    Nothing is audited, and no task is begun, until it is enabled again. Workers finish what they
    are at.
    """
    from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches

    with cluster_store(metadata) as store:
        AutorecoverySwitches(store).disable()
        _print_state(store, output)
    note("zbk: autorecovery rests, all over the cluster, until `zbk autorecovery enable`")


@click.command(
    "trigger",
    cls=ZbkCommand,
    examples=[("zbk autorecovery trigger", "do not wait for the delay, or for tomorrow")],
)
@metadata_option
@output_option
def trigger(metadata: str | None, output: Format) -> None:
    """Look for lost bookies now.

    The auditor reads the metadata of all ledgers, and reports those that name a bookie that is not
    there, at once, whatever the delay is. Ledgers that could not be repaired are tried again.
    """
    from zbk.metadata.records.underreplication import UnderreplicationStore

    with cluster_store(metadata) as store:
        tasks = UnderreplicationStore(store)
        tasks.trigger()
        _print_state(store, output)
        if not tasks.is_enabled():
            note("zbk: autorecovery is disabled: it begins after `zbk autorecovery enable`")
        _note_if_nobody_audits(store)


@click.command(
    "delay",
    cls=ZbkCommand,
    examples=[
        ("zbk autorecovery delay", "show it"),
        ("zbk autorecovery delay 10min", "a bookie may be away for so long"),
        ("zbk autorecovery delay default", "as each auditor is configured"),
    ],
)
@click.argument("duration", metavar="[DURATION|default]", default="")
@metadata_option
@output_option
def delay(duration: str, metadata: str | None, output: Format) -> None:
    """Say how long one lost bookie may take to return.

    Two or more that are lost at the same time are acted on without a delay. It holds for the whole
    cluster, whatever its auditors are configured to.
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
    """Report to programs how autorecovery stands now; people read the notes."""
    if output == "json":
        from zbk.metadata.records.election import read_auditor
        from zbk.metadata.records.underreplication import UnderreplicationStore

        vote = read_auditor(store)
        is_enabled = UnderreplicationStore(store).is_enabled()
        print_object({"enabled": is_enabled, "auditor": vote and vote.candidate_id}, output)


def _note_if_nobody_audits(store: "MetadataStore") -> None:
    from zbk.metadata.records.election import read_auditor

    if read_auditor(store) is None:
        note("zbk: nobody audits now: start `zbk autorecovery run`")
