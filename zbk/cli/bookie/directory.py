"""``zbk bookie retire-dir``, ``renew-dir``, ``expand-storage``: directories of a stopped bookie."""

from pathlib import Path
from typing import Any

import click

from zbk.cli.command import command
from zbk.cli.config_options import directory_options, offline_config
from zbk.cli.confirmation import is_confirmed, yes_option
from zbk.cli.options import output_option
from zbk.cli.output import Format, print_object
from zbk.cli.store import cluster_address, metadata_store
from zbk.config import BookieConfig

RETIRE_WARNING = (
    "the bookie loses entries that only this directory has; it gets them back from peers that have "
    "copies"
)


@command(
    "retire-dir", ("zbk bookie retire-dir --config bookie.toml /ledgers2/zbk", "its disk is gone")
)
@click.argument("directory", metavar="DIR")
@yes_option
@directory_options
@output_option
def retire_dir(
    directory: str,
    yes: bool,
    output: Format,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Retire one of several directories of a stopped bookie.

    A bookie does this itself when a write fails; the command is for a bookie that cannot start
    because a disk is missing. The bookie ignores the directory until `zbk bookie renew-dir`.
    """
    from zbk.actors.identity.service import check_retire, retire
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    path = _of(config, directory)
    check_retire(OsFiles(), config, path)
    if not is_confirmed(f"Take {path} out of service?", yes=yes, warning=RETIRE_WARNING):
        return
    retire(OsFiles(), config, path)
    print_object({"directory": path, "is_in_service": False}, output)


@command(
    "renew-dir",
    ("zbk bookie renew-dir --config bookie.toml /ledgers2/zbk", "a new disk is mounted there"),
)
@click.argument("directory", metavar="DIR")
@yes_option
@directory_options
@output_option
def renew_dir(
    directory: str,
    yes: bool,
    output: Format,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Bring a directory of a stopped bookie back into service, empty.

    Removes the data that this bookie had there: the directory has missed what was promised since it
    went out of service.
    """
    from zbk.actors.identity.service import check_renew, renew
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    path = _of(config, directory)
    check_renew(OsFiles(), config, path)
    warning = f"the data of this bookie in {path} will be removed"
    if not is_confirmed(f"Start with an empty {path}?", yes=yes, warning=warning):
        return
    renew(OsFiles(), config, path)
    print_object({"directory": path, "is_in_service": True}, output)


@command(
    "expand-storage",
    ("zbk bookie expand-storage --config bookie.toml", "its file lists a new directory at the end"),
    ("zbk bookie expand-storage ... --ledger-dir /l1 --ledger-dir /l2", "the old ones first"),
)
@yes_option
@directory_options
@output_option
def expand_storage(
    yes: bool,
    output: Format,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Add new, empty directories to a stopped bookie.

    The configuration names the bookie's directories in their order, then the new ones, which must
    exist and be empty. Ledgers stay where they are; new ledgers use all directories. A directory
    that was added stays. After an interruption, run the command again.
    """
    from zbk.actors.identity.expansion import check_expansion, expand
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    with metadata_store(cluster_address(config.metadata or None)) as store:
        found = check_expansion(OsFiles(), store, config)
        new = " and ".join(found.new)
        warning = f"bookie {found.after.bookie_id} will need {new} forever"
        is_resumed = found.is_complete  # only notes of an interrupted run are left
        if not is_resumed and not is_confirmed(f"Add {new}?", yes=yes, warning=warning):
            return
        expand(OsFiles(), store, config)
    shown = {
        "bookie_id": found.after.bookie_id,
        "journal_dirs": list(found.after.journal_dirs),
        "ledger_dirs": list(found.after.ledger_dirs),
        "added": list(found.new),
    }
    print_object(shown, output)


def _of(config: BookieConfig, directory: str) -> str:
    """Return a directory as the configuration spells it."""
    wanted = Path(directory).absolute()
    known = (*config.journal_dirs, *config.ledger_dirs)
    return next((one for one in known if Path(one).absolute() == wanted), directory)
