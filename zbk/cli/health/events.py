"""``zbk events``: the timeline of a cluster, from a console or watched from here."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from zbk.cli.command import command
from zbk.cli.options import integer_option, metadata_option, output_option
from zbk.cli.output import Format, flush, note, print_rows, time_text

if TYPE_CHECKING:
    from zbk.console.history import Event

COLUMNS: Final = ["time", "lane", "kind", "event"]
LOOK_INTERVAL_S: Final = 1.0


class Timeline(Protocol):
    """Where events come from."""

    def fresh(self) -> list["Event"]:
        """Return the events that were not returned before, the oldest first."""
        ...


@command(
    "events",
    ("zbk events", "what the console of the running `zbk up` has seen"),
    ("zbk events --follow", "also what happens from now on"),
    ("zbk events --console http://127.0.0.1:8710 -o json", "of this console, for scripts"),
    ("zbk events --lane auditor --follow --metadata zk://zk1:2181/zbk", "watched from here"),
)
@click.option(
    "--console",
    metavar="URL",
    envvar="ZBK_CONSOLE",
    show_envvar=True,
    default="",
    help="Console that has the timeline. [default: that of the running `zbk up`]",
)
@click.option("--lane", metavar="LANE", default="", help="Only this lane: a bookie, auditor, ...")
@integer_option(
    "--after", "after", metavar="N", low=0, default=0, help_text="Only events past this one."
)
@click.option("-f", "--follow", "is_following", is_flag=True, help="Continue with new events.")
@metadata_option
@output_option
def events(
    *,
    console: str,
    lane: str,
    after: int,
    is_following: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Show what happened in a cluster, the oldest first.

    Bookies that left, returned or changed to read-only, elections and audits, repairs, changes of
    ensembles, fences and recoveries, outages of the metadata store. A console keeps the last 500
    events since its start. Without a console, --follow watches the cluster of --metadata from now
    on.

    Lanes are bookies, `auditor`, `ledgers`, `metadata` and `repair`. --after continues after a
    number of the JSON output.
    """
    with _timeline(console, metadata, after, can_watch=is_following) as timeline:
        try:
            rows = (_row(one, output) for one in _wanted(timeline, lane, is_following=is_following))
            print_rows(rows, COLUMNS, output, is_live=is_following)
        except KeyboardInterrupt:  # the way to end it
            if not is_following:
                raise


# ------------------------------------------------------------------ private


@contextmanager
def _timeline(
    console: str, metadata: str | None, after: int, *, can_watch: bool
) -> Iterator[Timeline]:
    """Yield the timeline of a console, else one that is watched from here.

    Raises:
        InvalidOptionError: there is no console, and it cannot watch.
    """
    from zbk.cli.store import cluster_address
    from zbk.console.remote_timeline import RemoteTimeline
    from zbk.console.watched_timeline import WatchedTimeline
    from zbk.errors import InvalidOptionError

    address = "" if console else cluster_address(metadata)
    url = console or _console_of(address)
    if url:
        yield RemoteTimeline(url, after)
        return
    if not can_watch:
        reason = "no console is known: give --console URL, or --follow to watch from now on"
        raise InvalidOptionError("console", "", reason)
    with WatchedTimeline(address) as watched:
        note("zbk: no console is known: watching the cluster from now on")
        yield watched


def _console_of(address: str) -> str:
    """Return the URL of the console of the running ``zbk up``, if that has this cluster."""
    from zbk.errors import InvalidOptionError
    from zbk.system.context import find_context

    try:
        context = find_context()
    except InvalidOptionError:  # broken, and an address was given
        return ""
    if context is None or context.is_stale or context.metadata != address:
        return ""
    return context.console


def _wanted(timeline: Timeline, lane: str, *, is_following: bool) -> Iterator["Event"]:
    """Yield the events of a lane; while following, errors after the first answer are noted once.

    Raises:
        UnavailableError: the first question has no answer.
    """
    from zbk.errors import ZbkError

    pause = threading.Event()
    trouble, is_first = "", True
    while True:
        try:
            found = timeline.fresh()
            trouble = ""
        except ZbkError as error:
            if is_first or not is_following:
                raise
            if str(error) != trouble:
                trouble = str(error)
                note(f"zbk: {trouble}")
            found = []
        yield from (one for one in found if lane in ("", one.lane))
        if not is_following:
            return
        is_first = False
        flush()
        pause.wait(LOOK_INTERVAL_S)


def _row(event: "Event", output: Format) -> Mapping[str, Any]:
    import msgspec

    if output == "json":
        return msgspec.structs.asdict(event)
    return {
        "time": time_text(event.at_ms),
        "lane": event.lane,
        "kind": event.kind,
        "event": event.text,
    }
