"""The options of ``zbk autorecovery run``: those of ``AutorecoveryConfig``, one by one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from zbk.cli.config_file import config_option, read_tables
from zbk.cli.config_options import source_text, value_text
from zbk.cli.options import metadata_option
from zbk.config import AutorecoveryConfig, build
from zbk.errors import InvalidOptionError

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

AUTORECOVERY_HELP: Final = {
    "session_timeout_ms": "How long a dead process keeps others from taking over from it.",
    "lost_bookie_delay_ms": "How long a bookie may be away before its ledgers are copied.",
    "brake_share_percent": "Share of the bookies that, gone at once, makes the auditor look again.",
    "brake_window_ms": "Time within which bookies count as gone at once.",
    "brake_hold_ms": "How long the auditor waits before it looks again.",
    "bookie_check_interval_ms": "How often all ledgers are searched for lost bookies; 0 is off.",
    "ledger_check_interval_ms": "How often replicas are read; 0 is off.",
    "ledger_check_full": "Read every entry, not only the first and last of each fragment.",
    "placement_check_interval_ms": "How often replicas on one rack are counted; 0 is off.",
    "replicas_check_interval_ms": "How often bookies are asked what they hold; 0 is off.",
    "worker_count": "How many ledgers are repaired at the same time.",
    "open_ledger_grace_ms": "How long a writer may take to move on before its ledger is fenced.",
    "replication_rate_size": "Bytes a second that are copied; 0 is no limit.",
    "repair_retry_ms_max": "The longest pause between two attempts at one ledger.",
    "target_policy": "Who gets the copies: placement (as new ledgers), or local.",
    "local_bookie_id": "The bookie that the target policy local fills.",
}
"""Fields of ``AutorecoveryConfig`` as options, in the order of the help; ``metadata`` is apart."""


def autorecovery_options(command: FunctionT) -> FunctionT:
    """Give a command an option for each field of ``AutorecoveryConfig``, and ``--config``."""
    defaults = AutorecoveryConfig()
    for name in reversed(AUTORECOVERY_HELP):
        default = getattr(defaults, name)
        flag = f"--{name.replace('_', '-')}"
        text = AUTORECOVERY_HELP[name]
        if isinstance(default, bool):
            help_text = f"{text}  {source_text(AutorecoveryConfig, name)}"
            made = click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=help_text)
        else:
            source = source_text(AutorecoveryConfig, name, value_text(name, default))
            made = click.option(flag, name, metavar=_metavar(name), help=f"{text}  {source}")
        command = made(command)
    return metadata_option(config_option(command))


def autorecovery_config(options: dict[str, Any]) -> AutorecoveryConfig:
    """Build the configuration from flags, environment, file and defaults, in this order.

    Raises:
        InvalidOptionError: an option is unknown or out of its range, or no metadata store is given.
    """
    table = read_tables(options.pop("config_file")).get("autorecovery", {})
    if not options.get("metadata") and "metadata" not in table:
        from zbk.system.context import read_context

        found = read_context()
        if found is None and "ZBK_AUTORECOVERY_METADATA" not in os.environ:
            raise InvalidOptionError(
                "metadata", "", "give --metadata, set ZBK_METADATA, or start `zbk up`"
            )
        table = {"metadata": found or "", **table}
    return build(AutorecoveryConfig, flags=options, environment=os.environ, table=table)


def autorecovery_beside(metadata: str, config_file: Path | None) -> AutorecoveryConfig:
    """Build the configuration of what runs beside a bookie: in the bookie's own cluster."""
    table = read_tables(config_file).get("autorecovery", {})
    flags = {"metadata": metadata}
    return build(AutorecoveryConfig, flags=flags, environment=os.environ, table=table)


def _metavar(name: str) -> str:
    if name.endswith("_ms"):
        return "DURATION"
    if name.endswith("_percent"):
        return "PERCENT"
    return "SIZE" if "_size" in name else "COUNT" if name.endswith("_count") else "TEXT"
