"""``zbk bookie retire-dir`` and ``renew-dir``: one of several directories goes, and comes back."""

from pathlib import Path
from typing import Any

import click

from zbk.cli.bookie.directory_options import directory_options
from zbk.cli.command import ZbkCommand
from zbk.cli.config_options import offline_config
from zbk.cli.confirmation import is_confirmed, yes_option
from zbk.cli.options import output_option
from zbk.cli.output import Format, print_object
from zbk.config import BookieConfig

RETIRE_WARNING = (
    "what only this directory has is lost to the bookie; peers give it back where there are copies"
)


@click.command(
    "retire-dir",
    cls=ZbkCommand,
    examples=[
        ("zbk bookie retire-dir --config bookie.toml /ledgers2/zbk", "its disk is gone"),
    ],
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

    A bookie does so itself when a write fails; this is for one that does not start, because a disk
    is not there. Nothing looks into the directory any more, until `zbk bookie renew-dir`.
    """
    from zbk.actors.identity.service import check_retire, retire
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    path = _of(config, directory)
    check_retire(OsFiles(), config, path)
    if not is_confirmed(RETIRE_WARNING, f"Take {path} out of service?", yes=yes):
        return
    retire(OsFiles(), config, path)
    print_object({"directory": path, "is_in_service": False}, output)


@click.command(
    "renew-dir",
    cls=ZbkCommand,
    examples=[
        ("zbk bookie renew-dir --config bookie.toml /ledgers2/zbk", "a new disk is mounted there"),
    ],
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

    What this bookie had there is removed. It has missed what was promised since it went out of
    service, so it never comes back as it was.
    """
    from zbk.actors.identity.service import check_renew, renew
    from zbk.system.files import OsFiles

    config = offline_config(BookieConfig, options)
    path = _of(config, directory)
    check_renew(OsFiles(), config, path)
    warning = f"what this bookie had in {path} will be removed"
    if not is_confirmed(warning, f"Begin anew in {path}?", yes=yes):
        return
    renew(OsFiles(), config, path)
    print_object({"directory": path, "is_in_service": True}, output)


def _of(config: BookieConfig, directory: str) -> str:
    """Return a directory as the configuration spells it."""
    wanted = Path(directory).absolute()
    known = (*config.journal_dirs, *config.ledger_dirs)
    return next((one for one in known if Path(one).absolute() == wanted), directory)
