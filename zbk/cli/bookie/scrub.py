"""``zbk bookie scrub``: have bookies read all their files, and show the damage found."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from zbk.cli.command import command
from zbk.cli.completion import complete_bookies
from zbk.cli.options import cluster_options, duration_option, output_option
from zbk.cli.output import Format, note, print_json, print_rows
from zbk.cli.progress import telling
from zbk.cli.session import Session
from zbk.errors import DamageError, InvalidOptionError, UnavailableError, ZbkError

if TYPE_CHECKING:
    from zbk.wire.messages import ScrubStatus

PASS_COLUMNS: Final = [
    "bookie_id",
    "state",
    "pass",
    "percent",
    "read_size",
    "damaged_files",
    "damaged_ledgers",
    "damaged_entries",
    "unreported_ledgers",
]
FILE_COLUMNS: Final = ["bookie_id", "path", "offset", "ledger_id", "reason"]
ENTRIES_COLUMNS: Final = ["bookie_id", "ledger_id", "first_entry_id", "last_entry_id"]


@command(
    "scrub",
    ("zbk bookie scrub ID --wait", "read everything now, and show the damage"),
    ("zbk bookie scrub --all", "start on all bookies"),
    ("zbk bookie scrub --all --status -o json", "their findings, for programs"),
)
@click.argument("bookie_id", metavar="ID", required=False, shell_complete=complete_bookies)
@click.option("--all", "is_all", is_flag=True, help="All bookies that are registered.")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait for the end, and show the damage.")
@click.option("--status", "is_asking", is_flag=True, help="Start nothing; show the last findings.")
@duration_option("--timeout", "timeout_ms", default="24h", help_text="Time to wait for the end.")
@cluster_options
@output_option
@click.pass_obj
def scrub(
    session: Session,
    bookie_id: str | None,
    is_all: bool,
    is_waiting: bool,
    is_asking: bool,
    timeout_ms: int,
    metadata: str | None,
    output: Format,
) -> None:
    """Ask running bookies to look for damage on their disks.

    A pass reads every entry log and the index, limited by the bookie's scrub_rate_size. Ledgers
    with damaged entries are reported as under-replicated; until they are repaired, readers use the
    other replicas. The exit code is 4 if damage was found, else 3 if one of all bookies did not
    answer. For a stopped bookie use `zbk bookie sanity`.
    """
    if (bookie_id is None) is not is_all:
        raise InvalidOptionError("bookie", bookie_id or "", "give the id of one, or --all")
    with session.open_client(metadata) as client:
        ids = [bookie_id] if bookie_id else [one.bookie_id for one in client.list_bookies()]
        silent = _Silent(is_all=is_all)
        found: dict[str, ScrubStatus] = {}
        for one in ids:
            with silent.noting(one):
                found[one] = client.scrub(one, is_pass_wanted=not is_asking)
        for one in list(found) if is_waiting and not is_asking else ():
            with silent.noting(one), telling("percent") as tell:
                found[one] = client.follow_scrub(
                    one, found[one], timeout=timeout_ms / 1000, tell=_percent_to(tell, one)
                )
    if not (is_waiting or is_asking):
        begun = ({"bookie_id": one, "pass": found[one].awaited_pass} for one in found)
        print_rows(begun, ["bookie_id", "pass"], output)
        if found:
            note("zbk: the scrub runs; `zbk bookie scrub --status` shows its progress")
        silent.check()
        return
    _print(found, output)
    file_count = sum(status.file_count for status in found.values())
    ledger_count = sum(status.ledger_count for status in found.values())
    if file_count or ledger_count:
        silent.tell()
        raise DamageError(
            f"{file_count} damaged files, {ledger_count} ledgers with damaged entries"
        )
    silent.check()


# ------------------------------------------------------------------ private


class _Silent:
    """The bookies whose requests failed; the error of one that is asked alone is its own."""

    def __init__(self, *, is_all: bool) -> None:
        self._is_all = is_all
        self._reasons: dict[str, ZbkError] = {}

    @contextmanager
    def noting(self, bookie_id: str) -> Iterator[None]:
        """Note that a request fails, so that the other bookies are asked, too."""
        try:
            yield
        except ZbkError as error:
            if not self._is_all:
                raise
            self._reasons[bookie_id] = error

    def tell(self) -> None:
        """Name the bookies, with the reasons, on standard error."""
        for bookie_id, reason in self._reasons.items():
            note(f"zbk: bookie {bookie_id} is not part of this: {reason}")

    def check(self) -> None:
        """Check that all bookies answered, and name the others.

        Raises:
            UnavailableError: some did not.
        """
        self.tell()
        if self._reasons:
            raise UnavailableError(f"bookies did not answer: {', '.join(self._reasons)}")


def _percent_to(
    tell: Callable[[str, int], None], bookie_id: str
) -> Callable[["ScrubStatus"], None]:
    return lambda status: tell(f"bookie {bookie_id}", int(100 * status.share))


def _print(found: "dict[str, ScrubStatus]", output: Format) -> None:
    passes = [_pass_row(one, status) for one, status in found.items()]
    files = [row for one, status in found.items() for row in _file_rows(one, status)]
    entries = [row for one, status in found.items() for row in _entries_rows(one, status)]
    if output == "json":
        for kind, rows in (("pass", passes), ("file", files), ("entries", entries)):
            for row in rows:
                print_json({"kind": kind, **row})
        return
    print_rows(passes, PASS_COLUMNS, output)
    for rows, columns in ((files, FILE_COLUMNS), (entries, ENTRIES_COLUMNS)):
        if rows:
            click.echo()
            print_rows(rows, columns, output)


def _pass_row(bookie_id: str, status: "ScrubStatus") -> dict[str, Any]:
    is_running = status.begun_pass > status.ended_pass
    state = "running" if is_running else "done" if status.ended_pass else "not yet"
    return {
        "bookie_id": bookie_id,
        "state": state,
        "pass": status.begun_pass,
        "percent": round(100 * status.share, 1) if is_running else None,
        "read_size": status.read_size,
        "damaged_files": status.file_count,
        "damaged_ledgers": status.ledger_count,
        "damaged_entries": status.entry_count,
        "unreported_ledgers": status.unreported_count,
        "unconfirmed": status.unconfirmed_count,
    }


def _file_rows(bookie_id: str, status: "ScrubStatus") -> Iterator[dict[str, Any]]:
    for path, offset, ledger_id, reason in status.files:
        yield {
            "bookie_id": bookie_id,
            "path": path,
            "offset": offset,
            "ledger_id": ledger_id,
            "reason": reason,
        }


def _entries_rows(bookie_id: str, status: "ScrubStatus") -> Iterator[dict[str, Any]]:
    for ledger_id, first_entry_id, last_entry_id in status.ranges:
        yield {
            "bookie_id": bookie_id,
            "ledger_id": ledger_id,
            "first_entry_id": first_entry_id,
            "last_entry_id": None if last_entry_id < 0 else last_entry_id,
        }
