"""The options of commands that work on a bookie's directories, not on a running bookie."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from zbk.cli.bookie.options import directory_option
from zbk.cli.config_file import config_option, read_tables
from zbk.cli.options import metadata_option
from zbk.config import BookieConfig, build

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def directory_options(command: FunctionT) -> FunctionT:
    """Give a command the options that say where a bookie's directories and its metadata are."""
    for name in ("ledger_dir", "journal_dir"):
        command = directory_option(name)(command)
    return metadata_option(config_option(command))


def offline_config(options: dict[str, Any]) -> BookieConfig:
    """Build the bookie's configuration; metadata and directories that are not given stay empty.

    Raises:
        InvalidOptionError: an option is unknown or out of its range.
    """
    table = read_tables(options.pop("config_file")).get("bookie", {})
    return build(BookieConfig, flags=options, environment=os.environ, table=table)


def metadata_address(config: BookieConfig) -> str:
    """Return the address of the metadata store: the bookie's, or that of the running `zbk up`."""
    if config.metadata:
        return config.metadata
    from zbk.system.context import read_context

    return read_context() or ""
