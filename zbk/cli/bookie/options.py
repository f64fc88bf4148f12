"""The options of ``zbk bookie init`` and ``run``: those of ``BookieConfig``, one by one."""

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from zbk.cli.config_file import config_option, read_tables
from zbk.cli.config_options import metavar_of, source_text, value_text
from zbk.cli.options import metadata_option
from zbk.config import BookieConfig, build
from zbk.errors import InvalidOptionError

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

OPTION_HELP: Final = {
    "journal_dir": "Folder of a journal, fastest on a disk of its own.",
    "ledger_dir": "Folder of entry logs and index.",
    "listen": "Address to listen on.",
    "advertise": "Address that clients are told, where it is another one.",
    "rack": "Where the bookie stands, for placement.",
    "entry_size_max": "Largest payload.",
    "connection_credit_size": "Bytes of requests that one client may have in flight.",
    "connection_count_max": "Clients at a time; fewer where `ulimit -n` is small.",
    "handshake_ms": "Time in which a connection has to say HELLO.",
    "connection_idle_ms": "Silence after which a client has to say HELLO again.",
    "read_size_max": "Bytes in one read reply.",
    "journal_segment_size": "Size of a journal file.",
    "journal_unsynced_size_max": "Bytes written ahead of the running fsync.",
    "entry_log_size_max": "Size at which an entry log is sealed.",
    "ledger_cache_size": "Memory for index pages.",
    "open_files_max": "Index files and entry logs kept open; fewer where `ulimit -n` is small.",
    "memory_max": "Memory at which the bookie stops, to be started again; 0 is off.",
    "checkpoint_interval_ms": "How often a checkpoint makes entry logs and index durable.",
    "checkpoint_journal_size": "Journal bytes that start one early; of many ledgers 6 times that.",
    "sync_interval_ms": "Background fsync of vd ledgers; 0 is off.",
    "boot_id": "Another one whenever the page cache may be lost; the machine's own if not given.",
    "limbo_grace_ms": "How long peers are waited for by a re-check after an unclean stop.",
    "session_timeout_ms": "How long a dead bookie stays registered.",
    "gc_interval_ms": "How often deleted ledgers are looked for; 0 is off.",
    "gc_confirm_delay_ms": "Time between two looks before a ledger is taken as deleted.",
    "compaction_minor_threshold": "Live share of an entry log below which minor compaction takes "
    "it; 0 is off.",
    "compaction_minor_interval_ms": "How often minor compaction comes; 0 is off.",
    "compaction_major_threshold": "The same for major compaction.",
    "compaction_major_interval_ms": "How often major compaction comes; 0 is off.",
    "compaction_rate_size": "Bytes a second that compaction reads and writes; 0 is no limit.",
    "scrub_interval_ms": "How often all files are read to find damage; 0 is off.",
    "scrub_rate_size": "Bytes a second that are read for it; 0 is no limit.",
    "disk_warn_free": "Free space of a disk below which the bookie warns.",
    "disk_readonly_free": "Free space of a disk below which the bookie takes no new entries.",
    "disk_reserve_size": "Held back in each folder for when its disk is full.",
}
"""Fields of ``BookieConfig`` as options, in the order of the help; ``metadata`` is apart."""


DIRECTORY_OPTIONS: Final = ("journal_dir", "ledger_dir")


def config_options(command: FunctionT) -> FunctionT:
    """Give a command an option for each field of ``BookieConfig``, and ``--config``."""
    defaults = BookieConfig()
    for name in reversed(OPTION_HELP):
        default = value_text(name, getattr(defaults, name))
        command = (
            directory_option(name)(command)
            if name in DIRECTORY_OPTIONS
            else click.option(
                f"--{name.replace('_', '-')}",
                name,
                metavar=metavar_of(name),
                help=f"{OPTION_HELP[name]}  {source_text(BookieConfig, name, default)}",
            )(command)
        )
    return metadata_option(config_option(command))


def directory_option(name: str) -> Callable[[FunctionT], FunctionT]:
    """Return what gives a command an option for directories, which may be given several times."""
    return click.option(
        f"--{name.replace('_', '-')}",
        name,
        metavar="DIR",
        multiple=True,
        callback=lambda _context, _option, paths: _one_or_several(paths),
        help=f"{OPTION_HELP[name]} May be given several times; in the variable, : stands between "
        f"several.  {source_text(BookieConfig, name)}",
    )


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


def _one_or_several(paths: tuple[str, ...]) -> str | tuple[str, ...] | None:
    return paths if len(paths) > 1 else next(iter(paths), None)
