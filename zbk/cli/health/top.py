"""``zbk top``: a live view of what the bookies do."""

import os
import shutil
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.config_file import own_security
from zbk.cli.options import cluster_options, duration_option, output_option
from zbk.cli.output import Format, flush, print_json, size_text, time_text
from zbk.cli.signals import end_like_ctrl_c
from zbk.cli.streams import is_terminal

if TYPE_CHECKING:
    from zbk.health.cluster_rates import BookieRates, ClusterSample

COLUMNS: Final = (
    "BOOKIE", "STATE", "ADDS/S", "IN/S", "READS/S", "OUT/S", "FSYNC/S", "FSYNC", "CPU", "MEMORY",
    "FREE",
)  # fmt: skip
TIMEOUT_S: Final = 2.0
"""Time for the metadata store, and then for all bookies together, in one sample."""

ENTER: Final = "\x1b[?1049h\x1b[?25l"  # another screen, no cursor
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
CLEAR_LINE: Final = "\x1b[K"
CLEAR_BELOW: Final = "\x1b[J"


@click.command(
    "top",
    cls=ZbkCommand,
    examples=[
        ("zbk top", "until Ctrl-C"),
        ("zbk top --once", "one view, for pipes"),
        ("zbk top -o json --interval 10s", "one object per interval"),
    ],
)
@duration_option("--interval", "interval_ms", default="2s", help_text="Time between two views.")
@click.option("--once", is_flag=True, help="Show one view and end.")
@cluster_options
@output_option
def top(interval_ms: int, once: bool, metadata: str | None, output: Format) -> None:
    """Show what each bookie does, live.

    Adds, reads, bytes and fsyncs per second, the mean duration of an fsync where the bookie serves
    its metrics to this machine, processor, memory and free space, and the ledgers that lack copies.
    In a terminal the view is renewed in place; elsewhere one view follows the other.
    """
    from zbk.cli.store import cluster_address
    from zbk.health.cluster_sampler import ClusterSampler
    from zbk.security.credentials import own_credentials

    is_live = output == "table" and not once and is_terminal(sys.stdout) and _has_screen()
    address = cluster_address(metadata)
    pause = threading.Event()
    with ClusterSampler(address, TIMEOUT_S, own_credentials(own_security())) as sampler:
        before = sampler.sample()
        if is_live:
            end_like_ctrl_c()  # which gives the screen back
            click.echo(ENTER, nl=False)
        try:
            while True:
                pause.wait(interval_ms / 1_000)
                after = sampler.sample()
                _show(address, before, after, output, is_live=is_live)
                if once:
                    return
                before = after
        except KeyboardInterrupt:  # the way to end it
            return
        finally:
            if is_live:
                click.echo(LEAVE, nl=False)


# ------------------------------------------------------------------ private


def _has_screen() -> bool:
    return os.environ.get("TERM", "dumb") != "dumb"


def _show(
    address: str,
    before: "ClusterSample",
    after: "ClusterSample",
    output: Format,
    *,
    is_live: bool,
) -> None:
    from zbk.health.cluster_rates import rates_between, total
    from zbk.system.clock import wall_ms

    rates = rates_between(before, after)
    now = time_text(wall_ms())
    if output == "json":
        print_json(_json(now, before, after, rates, total(rates)))
        return
    lacking = (
        f"{after.underreplicated_count:,} ledgers lack copies, {after.in_repair_count:,} in repair"
    )
    lines = [f"{now[11:19]}  {len(rates):,} bookies, {lacking}  {address}", ""]
    lines += _table([list(COLUMNS), *map(_cells, rates), *_total_cells(rates)])
    if is_live:
        click.echo(_screen(lines), nl=False)
        flush()
    else:
        click.echo("\n".join([*lines, ""]))


def _screen(lines: Sequence[str]) -> str:
    """Return what puts lines on the terminal, cut to its size: nothing wraps or scrolls."""
    width, height = shutil.get_terminal_size()
    shown = [f"{line[:width]}{CLEAR_LINE}" for line in lines[: max(1, height - 1)]]
    return HOME + "\r\n".join(shown) + CLEAR_BELOW


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        head = [f"{cell:<{width}}" for cell, width in zip(row[:2], widths[:2], strict=True)]
        rest = [f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*head, *rest]).rstrip())
    return lines


def _cells(one: "BookieRates") -> list[str]:
    return [
        one.bookie_id,
        one.state,
        *_rate_cells(one.rates),
        "-" if one.fsync_ms is None else f"{one.fsync_ms:.1f} ms",
        "-" if one.cpu_share is None else f"{100 * one.cpu_share:.0f} %",
        "-" if one.rss_size is None else size_text(one.rss_size),
        "-" if one.free_size is None else size_text(one.free_size),
    ]


def _rate_cells(rates: dict[str, float]) -> list[str]:
    if not rates:
        return ["-"] * 5
    return [
        f"{rates['adds_per_s']:,.0f}",
        size_text(int(rates["add_bytes_per_s"])),
        f"{rates['reads_per_s']:,.0f}",
        size_text(int(rates["read_bytes_per_s"])),
        f"{rates['fsyncs_per_s']:,.0f}",
    ]


def _total_cells(rates: "list[BookieRates]") -> list[list[str]]:
    from zbk.health.cluster_rates import total

    return [["total", "", *_rate_cells(total(rates)), *[""] * 4]] if len(rates) > 1 else []


def _json(
    now: str,
    before: "ClusterSample",
    after: "ClusterSample",
    rates: "list[BookieRates]",
    totals: dict[str, float],
) -> dict[str, Any]:
    import msgspec

    def shown(one: "BookieRates") -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.to_builtins(one)
        return fields | {name: one.rates.get(name) for name in totals}

    bookies = [shown(one) for one in rates]
    for bookie in bookies:
        del bookie["rates"]
    return {
        "time": now,
        "interval_ms": (after.at_us - before.at_us) // 1_000,
        "underreplicated_count": after.underreplicated_count,
        "in_repair_count": after.in_repair_count,
        "total": totals,
        "bookies": bookies,
    }
