"""The pages about what was configured and stored: options, data sets, logs."""

import os
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from zbk.config.sources import options_in_use
from zbk.console.bookie_options import bookie_options
from zbk.console.collector import TIMEOUT_S, Collector
from zbk.errors import ZbkError
from zbk.health.redaction import known_secrets, redacted_option
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.records.logs import LogStore
from zbk.system.deadline import within

PAGE_SIZE: Final = 50


def configuration(
    collector: Collector, tables: Mapping[str, Mapping[str, Any]], source: str
) -> dict[str, Any]:
    """Return the options of running bookies, and those of this process, without secrets.

    Options that were changed come first.
    """
    secrets = known_secrets(os.environ)
    rows = [
        {
            "section": one.section,
            "option": one.name,
            "value": redacted_option(one.name, one.value, secrets),
            "source": one.source,
            "is_changed": one.is_changed,
        }
        for one in options_in_use(tables, os.environ, source)
    ]
    return {
        "title": "Configuration",
        "cli": "zbk config show --sources",
        "bookies": bookie_options(collector),
        "options": sorted(rows, key=lambda one: not one["is_changed"]),
    }


def data_sets(collector: Collector, after: str) -> dict[str, Any]:
    """Return one page of the data sets, after a name."""
    rows: list[dict[str, Any]] = []
    with within(TIMEOUT_S):
        store = DataSetStore(collector.connection().store)
        names = [one for one in store.list() if one > after]
        for name in names[:PAGE_SIZE]:
            try:
                found, _version = store.read(name)
            except ZbkError as error:
                rows.append({"name": name, "why": str(error)})
                continue
            last = found.versions[-1] if found.versions else None
            rows.append(
                {
                    "name": name,
                    "version": last.version if last else None,
                    "row_count": last.row_count if last else None,
                    "size": last.size if last else None,
                    "ledger_count": last.ledger_count if last else None,
                    "committed_ms": last.committed_ms if last else None,
                }
            )
    return {
        "title": "Data sets",
        "cli": "zbk dataset ls",
        "data_sets": rows,
        "next": names[PAGE_SIZE - 1] if len(names) > PAGE_SIZE else None,
    }


def logs(collector: Collector, after: str) -> dict[str, Any]:
    """Return one page of the logs, after a name."""
    rows: list[dict[str, Any]] = []
    with within(TIMEOUT_S):
        store = LogStore(collector.connection().store)
        names = list(islice((one for one in store.list() if one > after), PAGE_SIZE + 1))
        for name in names[:PAGE_SIZE]:
            try:
                found, _version = store.read(name)
            except ZbkError as error:
                rows.append({"name": name, "why": str(error)})
                continue
            rows.append(
                {
                    "name": name,
                    "created_ms": found.created_ms,
                    "ledger_count": len(found.ledger_ids),
                    "last_ledger_id": found.ledger_ids[-1] if found.ledger_ids else None,
                    "first_index": found.first_index,
                }
            )
    return {
        "title": "Logs",
        "cli": "zbk log ls",
        "logs": rows,
        "next": names[PAGE_SIZE - 1] if len(names) > PAGE_SIZE else None,
    }
