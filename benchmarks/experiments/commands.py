"""Commands of the experiments; options and exit codes are those of ``zbk bench``."""

from typing import Any

import click

from benchmarks.experiments.deletion import DeletionLoad, run_deletion
from benchmarks.experiments.encryption import EncryptionLoad, run_encryption
from benchmarks.experiments.recovery import RecoveryLoad, run_recovery
from benchmarks.experiments.repair import RepairLoad, run_repair
from benchmarks.experiments.replacement import ReplacementLoad, run_replacement
from benchmarks.experiments.restart import RestartLoad, run_restart
from benchmarks.experiments.slow_disks import run_slow_disks
from benchmarks.experiments.striping import StripingLoad, run_striping
from zbk.cli.bench.options import (
    count_option,
    load_of,
    load_options,
    zookeeper_option,
)
from zbk.cli.bench.output import fields_of
from zbk.cli.bench.place import bench_folder
from zbk.cli.bench.write import print_result
from zbk.cli.command import command
from zbk.cli.options import (
    LEDGER_TYPES,
    duration_option,
    integer_option,
    ledger_type_option,
    output_option,
    size_option,
)
from zbk.cli.output import Format, note, print_object
from zbk.cli.progress import saying, telling
from zbk.protocol.entry.words import LedgerType

PROGRAM = "python -m benchmarks.experiments"

numbered_size_option = integer_option(
    "--size", low=8, default=100, help_text="Bytes of payload in an entry; the first 8 are its id."
)


@command("recovery", (f"{PROGRAM} recovery", "a million entries, and a thousand adds unanswered"))
@numbered_size_option
@count_option(1_000_000, "Entries that are acknowledged before the writer dies.")
@integer_option(
    "--outstanding",
    "outstanding_count",
    default=1_000,
    help_text="Adds that are unanswered when it dies.",
)
@zookeeper_option
@output_option
def recovery(
    size: int, count: int, outstanding_count: int, use_zookeeper: bool, output: Format
) -> None:
    """Kill a writer during its adds and measure the time to recover its ledger.

    Runs in a temporary cluster. Every acknowledged entry is read back afterwards; a missing one is
    an error.
    """
    load = RecoveryLoad(
        entry_size=size, acknowledged_count=count, outstanding_count=outstanding_count
    )
    note("starting a temporary cluster of three bookies")
    with bench_folder() as folder, saying() as on_progress:
        result = run_recovery(folder, load, use_zookeeper=use_zookeeper, on_progress=on_progress)
    print_object({"measured": "recovery"} | fields_of(result), output)


@command("encryption", (f"{PROGRAM} encryption --rounds 9", "with and without, nine times in turn"))
@count_option(60_000, "Entries of 1 KiB in each round of `append_many`.")
@integer_option("--rounds", "round_count", default=5, help_text="Rounds of each cluster, in turn.")
@integer_option("--lone", "lone_count", default=500, help_text="Appends one by one in each round.")
@integer_option("--handshakes", "handshake_count", default=400, help_text="Handshakes, five times.")
@output_option
def encryption(
    count: int, round_count: int, lone_count: int, handshake_count: int, output: Format
) -> None:
    """Measure appends with and without encryption, in turn, and handshakes.

    Runs in two temporary clusters on SQLite, of which one works at a time.
    """
    load = EncryptionLoad(
        entry_count=count,
        round_count=round_count,
        lone_count=lone_count,
        handshake_count=handshake_count,
    )
    note("starting two temporary clusters of three bookies")
    with bench_folder() as folder:
        result = run_encryption(folder, load)
    print_object({"measured": "encryption"} | fields_of(result), output)


@command("deletion", (f"{PROGRAM} deletion --ledgers 100", "a hundred ledgers of 1 MiB"))
@integer_option("--ledgers", "ledger_count", default=1_000, help_text="Ledgers, all deleted.")
@size_option("--size", "ledger_size", default="1MiB", help_text="Bytes of payload in each.")
@ledger_type_option("--type", default="vd-bypass", help_text="Type of the ledgers.")
@output_option
def deletion(ledger_count: int, ledger_size: int, ledger_type: str, output: Format) -> None:
    """Delete many ledgers and measure the space that one round of garbage collection returns.

    Runs in a temporary cluster of three bookies on SQLite.
    """
    load = DeletionLoad(
        ledger_count=ledger_count,
        ledger_size=ledger_size,
        ledger_type=LedgerType(LEDGER_TYPES[ledger_type]),
    )
    note("starting a temporary cluster of three bookies")
    with bench_folder() as folder, saying() as on_progress:
        result = run_deletion(folder, load, on_progress=on_progress)
    print_object({"measured": "deletion"} | fields_of(result), output)


@command("replacement", (f"{PROGRAM} replacement --rounds 9", "PD and VD, nine times in turn"))
@size_option("--size", "entry_size", default="16KiB", help_text="Bytes of payload in an entry.")
@integer_option("--rounds", "round_count", default=5, help_text="Rounds of each type, in turn.")
@integer_option("--ack", "ack_size", default=2, help_text="Ack quorum, of three bookies.")
@zookeeper_option
@output_option
def replacement(
    entry_size: int, round_count: int, ack_size: int, use_zookeeper: bool, output: Format
) -> None:
    """Kill a bookie under a writer and measure how long no append is acknowledged.

    Runs in a temporary cluster of four bookies. PD and VD ledgers take turns.
    """
    load = ReplacementLoad(entry_size=entry_size, round_count=round_count, ack_size=ack_size)
    note("starting a temporary cluster of four bookies")
    with bench_folder() as folder, saying() as on_progress:
        result = run_replacement(folder, load, use_zookeeper=use_zookeeper, on_progress=on_progress)
    print_object({"measured": "replacement"} | fields_of(result), output)


@command("restart", (f"{PROGRAM} restart --journal 100MiB", "with less to replay"))
@size_option(
    "--journal",
    "journal_size",
    default="500MiB",
    help_text="Bytes of journal after the last checkpoint of the killed bookie.",
)
@numbered_size_option
@zookeeper_option
@output_option
def restart(journal_size: int, size: int, use_zookeeper: bool, output: Format) -> None:
    """Kill a bookie and measure the time until its next start serves reads.

    Runs in a temporary cluster of one bookie whose checkpoints are delayed. The time runs from the
    start of the new process until a client has the last entry that the old one acknowledged.
    """
    load = RestartLoad(entry_size=size, journal_size_min=journal_size)
    note("starting a temporary cluster of one bookie")
    with bench_folder() as folder, saying() as on_progress:
        result = run_restart(folder, load, use_zookeeper=use_zookeeper, on_progress=on_progress)
    print_object({"measured": "restart"} | fields_of(result), output)


@command(
    "repair",
    (f"{PROGRAM} repair", "2 GiB in 200 ledgers, without a limit"),
    (f"{PROGRAM} repair --writer 10s --rate 16MiB", "and the cost to a writer"),
)
@size_option(
    "--held",
    "held_size",
    default="2GiB",
    help_text="Approximate payload that the killed bookie holds.",
)
@integer_option(
    "--ledgers", "ledger_count", default=200, help_text="Approximate number of ledgers."
)
@integer_option("--size", "entry_size", default=1024, help_text="Bytes of payload in an entry.")
@integer_option(
    "--bookies", "bookie_count", low=3, default=3, help_text="Bookies before one is killed."
)
@size_option(
    "--rate",
    "rate_size",
    help_text="Limit on the bytes copied in a second.  [default: no limit]",
)
@duration_option(
    "--writer",
    "writer_ms",
    help_text="Run a writer for this time before the repair, and during it, and compare its rates.",
)
@output_option
def repair(
    held_size: int,
    ledger_count: int,
    entry_size: int,
    bookie_count: int,
    rate_size: int | None,
    writer_ms: int,
    output: Format,
) -> None:
    """Kill a bookie and measure how fast autorecovery repairs its ledgers.

    Runs in a temporary cluster, with ledgers of two copies. Every repaired copy is read back and
    its digest verified.
    """
    load = RepairLoad(
        held_size=held_size,
        ledger_count=ledger_count,
        entry_size=entry_size,
        bookie_count=bookie_count,
        writer_seconds=writer_ms / 1000,
    )
    note(f"starting a temporary cluster of {bookie_count} bookies")
    with bench_folder() as folder, telling("done") as on_progress:
        result = run_repair(
            folder,
            load,
            options={"replication_rate_size": rate_size or 0, "brake_hold_ms": 500},
            on_progress=on_progress,
        )
    print_object(fields_of(result), output)


@command(
    "striping",
    (f"{PROGRAM} striping", "five bookies beside three, which share the cores"),
    (f"{PROGRAM} striping --bookie-cpu 15", "each bookie has 15 % of a core (root only)"),
)
@count_option(10_000, "Entries of each ledger.")
@size_option("--size", "entry_size", default="16KiB", help_text="Payload of an entry.")
@integer_option("--rounds", "round_count", default=3, help_text="Rounds of each ledger, in turn.")
@integer_option(
    "--bookie-cpu",
    "bookie_cpu_percent",
    low=0,
    default=0,
    help_text="Percent of one core that each bookie may use; 0: no limit. Needs root.",
)
@output_option
def striping(
    count: int, entry_size: int, round_count: int, bookie_cpu_percent: int, output: Format
) -> None:
    """Write VD ledgers that are striped over five bookies beside ledgers on three.

    Runs in temporary clusters of five bookies on SQLite, one after the other.
    """
    load = StripingLoad(
        entry_size=entry_size,
        entry_count=count,
        round_count=round_count,
        bookie_cpu_percent=bookie_cpu_percent,
    )
    note("starting temporary clusters of five bookies")
    with bench_folder() as folder, saying() as on_progress:
        result = run_striping(folder, load, on_progress=on_progress)
    print_object({"measured": "striping"} | fields_of(result), output)


@command(
    "write",
    (f"{PROGRAM} write --slow-bookie 50ms", "one bookie lags; its backlog in the client"),
    (f"{PROGRAM} write --type vd --slow-disks 100ms --neighbor pd", "VD beside slow fsyncs"),
)
@load_options
@duration_option(
    "--slow-bookie", "slow_bookie_ms", help_text="Additional time of each fsync of one bookie."
)
@duration_option(
    "--slow-disks", "slow_disks_ms", help_text="Additional time of each fsync of every bookie."
)
@zookeeper_option
@output_option
@click.pass_context
def write(
    context: click.Context,
    /,
    slow_bookie_ms: int,
    slow_disks_ms: int,
    use_zookeeper: bool,
    output: Format,
    **_load: Any,  # noqa: ANN401 - the values of `load_options`
) -> None:
    """Measure appends to a temporary cluster whose fsyncs take longer."""
    if bool(slow_bookie_ms) is bool(slow_disks_ms):
        raise click.UsageError("Give one of --slow-bookie and --slow-disks.", context)
    load = load_of(context)
    note("starting a temporary cluster of three bookies")
    with bench_folder() as folder:
        result, backlog_size_max = run_slow_disks(
            folder,
            load,
            slow_bookie_ms=slow_bookie_ms,
            slow_disks_ms=slow_disks_ms,
            use_zookeeper=use_zookeeper,
        )
    extra = {"slow_disks_ms": slow_disks_ms}
    if slow_bookie_ms:
        extra = {
            "slow_bookie_ms": slow_bookie_ms, "slow_bookie_backlog_size_max": backlog_size_max
        }  # fmt: skip
    print_result(result, output, extra)
