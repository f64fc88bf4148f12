"""The options of ``zbk bookie init`` and ``run``: those of ``BookieConfig``, one by one."""

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from zbk.cli.config_file import config_option, read_tables
from zbk.cli.options import metadata_option
from zbk.config import GIB, KIB, MIB, BookieConfig, build
from zbk.errors import InvalidOptionError

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

OPTION_HELP: Final = {
    "journal_dir": "Folder of the journal; on a disk of its own it is fastest.",
    "ledger_dir": "Folder of entry logs and index.",
    "listen": "Address to listen on.",
    "advertise": "Address that clients are told, where it is another one.",
    "rack": "Where the bookie stands, for placement.",
    "entry_size_max": "Largest payload.",
    "connection_credit_size": "Bytes of requests that one client may have in flight.",
    "connection_count_max": "Clients at a time.",
    "read_size_max": "Bytes in one read reply.",
    "journal_segment_size": "Size of a journal file.",
    "journal_unsynced_size_max": "Bytes written ahead of the running fsync.",
    "entry_log_size_max": "Size at which an entry log is sealed.",
    "ledger_cache_size": "Memory for index pages.",
    "open_files_max": "Index files kept open.",
    "checkpoint_interval_ms": "How often entry logs and index are made durable.",
    "checkpoint_journal_size": "Journal bytes that start a checkpoint early.",
    "sync_interval_ms": "Background fsync of vd ledgers; 0 is off.",
    "session_timeout_ms": "How long a dead bookie stays registered.",
    "gc_interval_ms": "How often deleted ledgers are looked for; 0 is off.",
    "gc_confirm_delay_ms": "Time between two looks before a ledger is taken as deleted.",
    "disk_warn_free": "Free space of a disk below which the bookie warns.",
    "disk_readonly_free": "Free space of a disk below which the bookie takes no new entries.",
    "disk_reserve_size": "Held back in each folder for when its disk is full.",
}
"""Fields of ``BookieConfig`` as options, in the order of the help; ``metadata`` is apart."""


def config_options(command: FunctionT) -> FunctionT:
    """Give a command an option for each field of ``BookieConfig``, and ``--config``."""
    defaults = BookieConfig()
    for name in reversed(OPTION_HELP):
        default = value_text(name, getattr(defaults, name))
        shown = f"  [default: {default}]" if default else ""
        command = click.option(
            f"--{name.replace('_', '-')}",
            name,
            metavar=_metavar(name),
            help=f"{OPTION_HELP[name]}{shown}",
        )(command)
    return metadata_option(config_option(command))


def bookie_config(options: dict[str, Any]) -> BookieConfig:
    """Build the configuration from flags, environment, file and defaults, in this order.

    Raises:
        InvalidOptionError: an option is unknown or out of its range, or no metadata store is given.
    """
    table = read_tables(options.pop("config_file")).get("bookie", {})
    config = build(BookieConfig, flags=options, environment=os.environ, table=table)
    if not config.metadata:
        from zbk.system.context import read_context

        found = read_context()
        if found is None:
            raise InvalidOptionError(
                "metadata", "", "give --metadata, set ZBK_METADATA, or start `zbk up`"
            )
        config = build(
            BookieConfig, flags=options | {"metadata": found}, environment=os.environ, table=table
        )
    return config


def value_text(name: str, default: int | str) -> str:
    """Return the value of an option as one would type it: ``64 MiB``, ``10s``."""
    units: list[tuple[str, int]] = [("", 1)]
    match _metavar(name):
        case "SIZE":
            units = [(" GiB", GIB), (" MiB", MIB), (" KiB", KIB), ("", 1)]
        case "DURATION":
            units = [("s", 1_000), ("ms", 1)]
    for unit, factor in units:
        if isinstance(default, int) and default % factor == 0:
            return f"{default // factor}{unit}"
    return str(default)


def _metavar(name: str) -> str:
    if name.endswith("_ms"):
        return "DURATION"
    if name.endswith(("_size", "_size_max")):
        return "SIZE"
    if name.endswith("_free"):
        return "SIZE|PERCENT"
    if name.endswith("_dir"):
        return "DIR"
    if name.endswith("_max"):
        return "COUNT"
    return "NAME" if name == "rack" else "ADDRESS"
