"""``zbk bookie sanity``, ``rebuild-index`` and ``format``: for stopped bookies."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from zbk.cli.command import command
from zbk.cli.config_options import directory_options, offline_config
from zbk.cli.confirmation import is_confirmed, yes_option
from zbk.cli.options import output_option, read_password_file
from zbk.cli.output import Format, note, print_json, print_object, print_rows
from zbk.cli.store import known_address, metadata_store
from zbk.config import BookieConfig
from zbk.errors import DamageError, InvalidOptionError, MetadataUnavailableError

if TYPE_CHECKING:
    from zbk.metadata.stores.store import MetadataStore

COLUMNS = ["path", "offset", "reason"]


@command(
    "sanity",
    ("zbk bookie sanity --config bookie.toml", "before it is started again"),
    ("zbk bookie sanity --journal-dir /j --ledger-dir /l -o json", "without its metadata"),
)
@directory_options
@output_option
def sanity(output: Format, **options: Any) -> None:  # noqa: ANN401 - fields of BookieConfig
    """Check the files of a stopped bookie.

    Checks cookies, journal, entry logs, and that each entry in the index is where the index says.
    Changes nothing; reads everything. The metadata are compared only if --metadata is given: only
    they show that directories have lost all their data. The exit code is 4 if anything is damaged
    or lost, 6 if the directories do not belong together or the bookie runs, 3 if the metadata store
    did not answer and nothing else is wrong.
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
            "zbk: directories that have lost all their data look like new ones; they were not "
            f"compared with the cluster's metadata{cure}"
        )
    if found.problem_count:
        raise DamageError(f"{found.problem_count} problems in the files of the bookie")
    if unanswered is not None:
        raise unanswered


@command(
    "rebuild-index",
    ("zbk bookie rebuild-index --config bookie.toml", "its index is lost or damaged"),
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

    In each of its ledger directories, from entry logs, journal and the readable part of the old
    index, which stays in use until the new one is complete. A ledger is fenced if no file shows
    whether it was. After an interruption, run the command again before the bookie starts. If
    entries may be lost it changes nothing, and names the place. The exit code is 4 if damage
    remains.
    """
    from zbk.actors.identity.offline import rebuild_index as rebuild
    from zbk.cli.progress import telling
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    with _store(known_address(config.metadata)) as store, telling() as tell:
        reports = rebuild(OsFiles(), store, config, passwords, tell)
    for path, report in reports.items():
        where = {"ledger_dir": path, "is_resumed": report is None}
        told = {} if report is None else msgspec.structs.asdict(report)
        told.pop("whole", None)  # for the limbo only
        print_object({**where, **told}, output)
    done = [report for report in reports.values() if report is not None]
    if len(done) < len(reports):
        note("zbk: an interrupted rebuild is complete now; run the command again to make a new one")
    fenced_count = sum(len(report.fenced_ids) for report in done)
    if fenced_count:
        note(f"zbk: {fenced_count} ledgers are fenced now: no file shows whether they were")
    kept_count = sum(report.kept_count for report in done)
    if kept_count:
        raise DamageError(
            f"{kept_count} entries are in the old index only: their bytes are damaged or "
            "gone, and reading them is an error; other replicas have them"
        )


@command(
    "format",
    ("zbk bookie format --config bookie.toml", "asks for confirmation"),
    ("zbk bookie format --config bookie.toml --with-cookie", "for a new `zbk bookie init`"),
)
@click.option(
    "--with-cookie",
    is_flag=True,
    help="Also remove its cookies, here and in the metadata: a new bookie can use the directories.",
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

    Without --with-cookie the directories keep the bookie's id, and the bookie starts only with `zbk
    bookie run --wiped-on-purpose`: it has acknowledged entries that it must not deny.
    """
    from zbk.actors.identity.identity import in_service
    from zbk.actors.identity.offline import wipe_bookie
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    address = known_address(config.metadata) if with_cookie else ""
    if with_cookie and not address:
        raise InvalidOptionError("metadata", "", "--with-cookie needs the cluster's metadata")
    dirs = in_service(OsFiles(), config)
    warning = "entries with their only copy on this bookie are lost"
    question = f"Remove all data in {' and '.join(dirs)}?"
    if not is_confirmed(question, yes=yes, warning=warning):
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


def _store(address: str) -> "AbstractContextManager[MetadataStore | None]":
    return metadata_store(address) if address else nullcontext()
