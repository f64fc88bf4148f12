"""``zbk bookie cookie``: whose directories these are, and how to repair a wrong answer."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command, commands_of, group
from zbk.cli.config_options import directory_options, offline_config
from zbk.cli.confirmation import is_confirmed, yes_option
from zbk.cli.options import bookie_id_argument, metadata_option, output_option
from zbk.cli.output import Format, print_object, print_rows, time_text
from zbk.cli.store import cluster_address, known_address, metadata_store
from zbk.config import BookieConfig
from zbk.errors import InvalidOptionError, MetadataUnavailableError

if TYPE_CHECKING:
    from zbk.actors.identity.cookies import FoundCookie

COLUMNS = [
    "place", "state", "bookie_id", "incarnation", "has_served", "instance_id", "created",
    "journal_dirs", "ledger_dirs",
]  # fmt: skip

DELETE_WARNING = (
    "a bookie without its cookie in the metadata never starts again; entries with their only copy "
    "there are lost"
)

GENERATE_WARNING = (
    "with its cookie the bookie treats the directory as complete: if any of its data is missing, "
    "the bookie denies entries that it has acknowledged, and recovery may cut them off. Continue "
    "only if {directory} holds everything that it held when the bookie last stopped"
)


@command(
    "show",
    ("zbk bookie cookie show --config bookie.toml", "directories and metadata side by side"),
    ("zbk bookie cookie show", "the metadata's cookies of all bookies"),
    ("zbk bookie cookie show b-0123456789 -o json", "one bookie"),
)
@click.argument("bookie_id", metavar="[ID]", default="")
@directory_options
@output_option
def show(bookie_id: str, output: Format, **options: Any) -> None:  # noqa: ANN401 - BookieConfig's
    """Show the cookies in directories and in the metadata.

    The state includes the history: facts that the cluster knows of the bookie and that a directory
    does not show. If the metadata store does not answer, the directories are shown, and the exit
    code is 3.
    """
    from zbk.actors.identity.cookies import look
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    address = known_address(config.metadata)
    has_directories = bool(config.journal_dirs or config.ledger_dirs)
    if not address and not has_directories:
        raise InvalidOptionError("metadata", "", "give --metadata, or directories to inspect")
    unanswered: MetadataUnavailableError | None = None
    with ExitStack() as stack:
        try:
            store = stack.enter_context(metadata_store(address)) if address else None
            found = look(OsFiles(), store, config, bookie_id)
        except MetadataUnavailableError as error:
            if not has_directories:
                raise
            unanswered = error
            found = look(OsFiles(), None, config, bookie_id)
    print_rows(map(_row, found), COLUMNS, output)
    if unanswered is not None:
        raise unanswered


@command(
    "delete",
    ("zbk bookie cookie delete b-0123456789", "its disks are lost; asks for confirmation"),
    ("zbk bookie cookie delete b-0123456789 --yes", "in a script"),
)
@bookie_id_argument
@yes_option
@metadata_option
@output_option
def delete(bookie_id: str, yes: bool, metadata: str | None, output: Format) -> None:
    """Remove a bookie from the cluster for good.

    Refused while the bookie is registered. Its directories are not changed.
    """
    from zbk.actors.identity.cookies import delete as delete_cookie

    with metadata_store(cluster_address(metadata)) as store:
        question = f"Delete the cookie of {bookie_id}?"
        if not is_confirmed(question, yes=yes, warning=DELETE_WARNING):
            return
        delete_cookie(store, bookie_id)
    print_object({"bookie_id": bookie_id, "is_deleted": True}, output)


@command(
    "generate", ("zbk bookie cookie generate b-0123456789 /ledgers/zbk", "restored from a backup")
)
@bookie_id_argument
@click.argument("directory", metavar="DIR")
@yes_option
@metadata_option
@output_option
def generate(
    bookie_id: str, directory: str, yes: bool, metadata: str | None, output: Format
) -> None:
    """Write a directory's cookie again, from the metadata.

    For a disk that was restored completely, except for its cookie. Refused while the bookie is
    registered, and for a directory that has a cookie, that is not one of the bookie's, or that
    holds no data.
    """
    from zbk.actors.identity.cookies import check_generate
    from zbk.actors.identity.cookies import generate as generate_cookie
    from zbk.system.files import OsFiles

    with metadata_store(cluster_address(metadata)) as store:
        check_generate(OsFiles(), store, bookie_id, directory)
        warning = GENERATE_WARNING.format(directory=directory)
        question = f"Write the cookie into {directory}?"
        if not is_confirmed(question, yes=yes, warning=warning):
            return
        generate_cookie(OsFiles(), store, bookie_id, directory)
    print_object({"bookie_id": bookie_id, "directory": directory, "is_written": True}, output)


@group(
    "cookie",
    commands_of(
        "zbk.cli.bookie",
        {
            "show": ("cookie:show", "Show the cookies in directories and in the metadata."),
            "delete": ("cookie:delete", "Remove a bookie from the cluster for good."),
            "generate": ("cookie:generate", "Write a directory's cookie again, from the metadata."),
        },
    ),
    ("zbk bookie cookie show --config bookie.toml", "why does the bookie not start?"),
)
def cookie() -> None:
    """Show and repair the cookies that identify a bookie."""


# ------------------------------------------------------------------ private


def _row(found: "FoundCookie") -> dict[str, Any]:
    cookie = found.cookie
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {
        "place": found.place,
        "state": found.state,
        "incarnation": found.incarnation,
        "has_served": found.has_served,
    }
    if cookie is not None:
        row |= {
            "bookie_id": cookie.bookie_id,
            "instance_id": cookie.instance_id,
            "created": time_text(cookie.created_ms),
            "journal_dirs": list(cookie.journal_dirs),
            "ledger_dirs": list(cookie.ledger_dirs),
        }
    return row
