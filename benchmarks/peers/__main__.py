"""``python -m benchmarks.peers redis|nats``: see ``benchmarks/peers/README.md``."""

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from benchmarks.machine import ROOT, this_machine
from benchmarks.peers.load import (
    Durability,
    PeerLoad,
    PeerRun,
    median_of,
    result_of,
    shaped,
)
from benchmarks.peers.servers import Version, find_server, version_of, version_text
from zbk.cli.options import choice_option, duration_option, integer_option, output_option
from zbk.cli.output import Format, note, print_object
from zbk.cli.signals import end_like_ctrl_c

RESULTS: Final = ROOT / "benchmarks" / "results"
EXIT_INTERRUPTED: Final = 130
NAMES: Final = ("redis", "nats")
MEDIANS_SHOWN: Final = ("entries_per_s", "latency_p50_ms", "latency_p99_ms")


class Peer(NamedTuple):
    """The parts of a peer."""

    program: str
    durability: Callable[[Version], Durability]
    run: Callable[[Path, Version, PeerLoad], PeerRun]


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("name", metavar="|".join(NAMES), type=click.Choice(NAMES))
@integer_option("--size", "entry_size", default=100, help_text="Bytes of payload in an entry.")
@integer_option("--count", "entry_count", default=200_000, help_text="Number of entries.")
@integer_option(
    "--batch", "batch_count", high=65_536, default=1_000, help_text="Entries in one batch."
)
@integer_option("--window", high=500, default=64, help_text="Batches that may be unanswered.")
@choice_option(
    "--api",
    choices=["many", "async", "sync"],
    default="many",
    help_text="Batches, an entry per call, or one entry after another.",
)
@integer_option(
    "--ledgers",
    "ledger_count",
    high=10_000,
    default=1,
    help_text="Streams that are written at the same time, for --seconds.",
)
@integer_option(
    "--outstanding",
    high=1,
    callback=lambda _context, _option, value: value or 0,
    help_text="With --api async: keep this many appends unanswered in each stream.",
)
@integer_option(
    "--processes",
    "process_count",
    high=256,
    default=1,
    help_text="Client processes that write at the same time, each with its own --ledgers.",
)
@duration_option(
    "--seconds",
    "seconds_ms",
    help_text="Write for this time instead of a --count; with --api sync, or async and "
    "--outstanding.",
)
@integer_option(
    "--rounds", high=100, default=1, help_text="Number of runs, with new servers each time."
)
@click.option(
    "--server",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The server's program.  [default: the one on the path]",
)
@click.option("--save", "is_saved", is_flag=True, help="Also write a file in benchmarks/results.")
@output_option
@click.pass_context
def peers(
    context: click.Context,
    /,
    name: str,
    seconds_ms: int,
    rounds: int,
    server: Path | None,
    is_saved: bool,
    output: Format,
    **load_options: Any,  # noqa: ANN401 - fields of PeerLoad
) -> None:
    """Write to three servers of another replicated log; print the columns of `zbk bench write`.

    The servers run in a temporary folder that is removed afterwards.
    """
    end_like_ctrl_c()
    load = shaped(PeerLoad(seconds=seconds_ms / 1000, **load_options))
    given = {
        name
        for name in ("entry_count", "batch_count", "window")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if reason := why_not(load, given):
        raise click.UsageError(reason)
    try:
        lines = _measure(name, server, load, rounds, output)
    except KeyboardInterrupt:
        note("peers: interrupted")
        context.exit(EXIT_INTERRUPTED)
    if is_saved:
        note(f"wrote {save(RESULTS, load, lines)}")


def why_not(load: PeerLoad, given: Collection[str]) -> str:
    """Return why a load with these given options makes no sense; empty if it does."""
    if load.outstanding and load.api != "async":
        return "--outstanding is for --api async"
    if not load.seconds:
        has_streams = load.outstanding or load.ledger_count > 1 or load.process_count > 1
        reason = "--ledgers, --outstanding and --processes need --seconds"
        return reason if has_streams else ""
    if load.api != "sync" and not load.outstanding:
        return "--seconds is for --api sync, or for --api async with --outstanding"
    if "entry_count" in given:
        return "--count says how many entries, --seconds how long: give one of them"
    if given:
        return "--seconds keeps one append unanswered in each stream: omit --window and --batch"
    return ""


def peer(name: str) -> Peer:
    """Return a peer, and import its client.

    Raises:
        click.UsageError: its client is not installed; the text has the command that installs it.
    """
    try:
        if name == "redis":
            from benchmarks.peers import redis_client, redis_servers  # noqa: PLC0415 - see above

            return Peer(redis_servers.PROGRAM, redis_servers.durability, redis_client.run)
        from benchmarks.peers import nats_client, nats_servers  # noqa: PLC0415 - see above

        return Peer(nats_servers.PROGRAM, nats_servers.durability, nats_client.run)
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"the Python package {error.name} is not installed: "
            "pip install --require-hashes -r requirements/peers.txt"
        ) from error


def save(folder: Path, load: PeerLoad, lines: list[dict[str, Any]]) -> Path:
    """Write the rounds of a load and their medians, replacing older ones; return the file."""
    parts = ["peers", lines[0]["measured"], str(load.entry_size), load.api]
    if load.ledger_count > 1:
        parts.append(f"ledgers-{load.ledger_count}")
    if load.process_count > 1:
        parts.append(f"processes-{load.process_count}")
    case = "-".join(parts)
    saved = {
        "case": case,
        "machine": this_machine(),
        "rounds": lines,
        "median": median_of(lines),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(saved), indent=1) + b"\n")
    return path


def _measure(
    name: str, server: Path | None, load: PeerLoad, rounds: int, output: Format
) -> list[dict[str, Any]]:
    """Run the rounds; print each as it comes."""
    program, durability, run = peer(name)
    path = find_server(program, server, os.environ.get("PATH"))
    version = version_of(path)
    lines = []
    for _ in range(rounds):
        note(f"starting three servers: {program} {version_text(version)}")
        measured = run(path, version, load)
        lines.append(result_of(name, version_text(version), durability(version), load, measured))
        print_object(lines[-1], output)
    if rounds > 1:
        median = median_of(lines)
        print_object({f"{field}_median": median[field] for field in MEDIANS_SHOWN}, output)
    return lines


if __name__ == "__main__":
    peers(prog_name="python -m benchmarks.peers")
