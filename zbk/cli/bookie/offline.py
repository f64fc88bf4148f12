"""``zbk bookie sanity``, ``rebuild-index`` and ``format``: for bookies that do not run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from zbk.cli.bookie.directory_options import directory_options, metadata_address
from zbk.cli.command import ZbkCommand
from zbk.cli.config_options import offline_config
from zbk.cli.confirmation import is_confirmed, yes_option
from zbk.cli.options import output_option, read_password_file
from zbk.cli.output import Format, note, print_json, print_object, print_rows
from zbk.config import BookieConfig
from zbk.errors import DamageError, InvalidOptionError, MetadataUnavailableError

if TYPE_CHECKING:
    from zbk.metadata.stores.store import MetadataStore

COLUMNS = ["path", "offset", "reason"]


@click.command(
    "sanity",
    cls=ZbkCommand,
    examples=[
        ("zbk bookie sanity --config bookie.toml", "before it is started again"),
        ("zbk bookie sanity --journal-dir /j --ledger-dir /l -o json", "without its metadata"),
    ],
)
@directory_options
@output_option
def sanity(output: Format, **options: Any) -> None:  # noqa: ANN401 - fields of BookieConfig
    """Check the files of a stopped bookie.

    Cookies, journal, entry logs, and that each entry that the index has is where it says. Changes
    nothing; reads everything. Metadata are asked only where they are given: only they tell that
    directories have lost all that was in them. The exit code is 4 if anything is damaged or lost,
    6 if the directories do not belong together or the bookie runs, 3 if the metadata store did not
    answer and nothing else is wrong.
    """
    from zbk.actors.identity.offline import check
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    with (
        _store_or_why_not(config.metadata) as (store, unanswered),
        check(OsFiles(), store, config) as found,
    ):
        rows = (msgspec.structs.asdict(problem) for problem in found.problems())
        if output == "json":
            for row in rows:
                print_json({"kind": "problem", **row})
        else:
            print_rows(rows, COLUMNS, output)
        summary = {
            "journal_record_count": found.record_count,
            "log_count": found.log_count,
            "torn_tail_count": found.torn_tail_count,
            "ledger_count": found.ledger_count,
            "entry_count": found.entry_count,
            "problem_count": found.problem_count,
            "is_history_compared": store is not None,
            "out_of_service": sorted(found.out_of_service),
        }
    print_object(summary if output == "table" else {"kind": "summary", **summary}, output)
    if store is None:
        cure = "" if unanswered is not None else ": give --metadata"
        note(
            "zbk: directories that have lost everything look like new ones; what the cluster knows "
            f"of the bookie was not compared{cure}"
        )
    if found.problem_count:
        raise DamageError(f"{found.problem_count} problems in the files of the bookie")
    if unanswered is not None:
        raise unanswered


@click.command(
    "rebuild-index",
    cls=ZbkCommand,
    examples=[
        ("zbk bookie rebuild-index --config bookie.toml", "its index is lost or damaged"),
    ],
)
@click.option(
    "--password-file",
    "passwords",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=lambda context, option, paths: [
        read_password_file(context, option, path) for path in paths
    ],
    help="File with the password of ledgers whose index is lost; may be given several times.",
)
@directory_options
@output_option
def rebuild_index(
    passwords: list[bytes],
    output: Format,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Make the index of a stopped bookie anew.

    In each of its ledger directories, from entry logs, journal and what can be read of the old
    index, which stays in use until the new one is whole. A ledger of which nothing tells whether
    it was fenced is fenced. Interrupted, it is to be run again before the bookie starts. If entries
    may be lost it changes nothing, and says where. The exit code is 4 if damage is left.
    """
    from zbk.actors.identity.offline import rebuild_index as rebuild
    from zbk.cli.progress import telling
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    with _store(metadata_address(config)) as store, telling() as tell:
        reports = rebuild(OsFiles(), store, config, passwords, tell)
    for path, report in reports.items():
        where = {"ledger_dir": path, "is_resumed": report is None}
        told = {} if report is None else msgspec.structs.asdict(report)
        told.pop("whole", None)  # for the limbo, not for people
        print_object({**where, **told}, output)
    done = [report for report in reports.values() if report is not None]
    if len(done) < len(reports):
        note("zbk: a rebuild that was interrupted is done now; run it again to make a new one")
    fenced_count = sum(len(report.fenced_ids) for report in done)
    if fenced_count:
        note(f"zbk: {fenced_count} ledgers are fenced from now on: nothing tells whether they were")
    kept_count = sum(report.kept_count for report in done)
    if kept_count:
        raise DamageError(
            f"{kept_count} entries are in the old index only: their bytes are damaged or "
            "gone, and reading them is an error; other replicas have them"
        )


@click.command(
    "format",
    cls=ZbkCommand,
    examples=[
        ("zbk bookie format --config bookie.toml", "all data of a stopped bookie; asks first"),
        ("zbk bookie format --config bookie.toml --with-cookie", "for a new `zbk bookie init`"),
    ],
)
@click.option(
    "--with-cookie",
    is_flag=True,
    help="Its cookies, too, here and in the metadata: the directories are free for a new bookie.",
)
@yes_option
@directory_options
@output_option
def format_(
    with_cookie: bool,
    yes: bool,
    output: Format,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Remove all data of a stopped bookie.

    Without --with-cookie the directories keep its id, and it starts only with `zbk bookie run
    --wiped-on-purpose`: it has acknowledged entries that it must not deny.
    """
    from zbk.actors.identity.identity import in_service
    from zbk.actors.identity.offline import wipe_bookie
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    address = metadata_address(config) if with_cookie else ""
    if with_cookie and not address:
        raise InvalidOptionError("metadata", "", "--with-cookie needs the cluster's metadata")
    dirs = in_service(OsFiles(), config)
    warning = "entries of which this bookie has the only copy are lost"
    if not is_confirmed(warning, f"Remove all data in {' and '.join(dirs)}?", yes=yes):
        return
    with _store(address) as store:
        wipe_bookie(OsFiles(), store, config)
    print_object({"directories": dirs, "is_cookie_removed": with_cookie}, output)


# ------------------------------------------------------------------ private


@contextmanager
def _store_or_why_not(
    address: str,
) -> "Iterator[tuple[MetadataStore | None, MetadataUnavailableError | None]]":
    """Yield the store, or none and the error if it does not answer."""
    with ExitStack() as stack:
        try:
            store = stack.enter_context(_store(address))
        except MetadataUnavailableError as error:
            yield None, error
        else:
            yield store, None


@contextmanager
def _store(address: str) -> "Iterator[MetadataStore | None]":
    from zbk.metadata.stores.connect import open_store

    if not address:
        yield None
        return
    store = open_store(address, must_exist=True)
    try:
        yield store
    finally:
        store.close()
