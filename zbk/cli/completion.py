"""What a shell completes from the live cluster: ids of ledgers and bookies, names of logs.

A lookup has ``LOOKUP_S`` and is given up then, as it is on any error: a shell that waits, or prints
errors between keystrokes, is worse than one that completes nothing. Only the metadata store is
asked. The lookup runs in a daemon thread, and ``zbk.cli.main`` ends the process without waiting for
it.
"""

import importlib
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from zbk.metadata.stores.store import MetadataStore

COMPLETE_VARIABLE: Final = "_ZBK_COMPLETE"
"""Set by the shell's function while it asks for completions."""

LOOKUP_S: Final = 0.3
SHOWN_COUNT_MAX: Final = 100

Lookup = Callable[["MetadataStore"], Iterable[str]]
Load = Callable[[], Lookup]
"""Imports what a lookup needs, which is no part of its time."""


def complete_ledgers(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of ledgers that begin with some digits."""
    del parameter
    return _matching(ctx, incomplete, _ledger_ids)


def complete_bookies(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of bookies, of which some may not run."""
    del parameter
    return _matching(ctx, incomplete, _bookie_ids)


def complete_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of data sets for `zbk dataset`, and of logs for `zbk log`."""
    del parameter
    is_data_set = ctx.parent is not None and ctx.parent.info_name == "dataset"
    return _matching(ctx, incomplete, _data_set_names if is_data_set else _log_names)


# ------------------------------------------------------------------ private


def _matching(ctx: click.Context, incomplete: str, load: Load) -> list[str]:
    found: list[str] = []
    from zbk.metadata.stores.connect import open_store

    try:
        address = ctx.params.get("metadata") or _default_address()
        lookup = load()
        _load_store(address)
    except Exception:  # noqa: BLE001 - see above
        return []

    def look() -> None:
        with suppress(Exception):  # see above
            # the store ends with the process
            store = open_store(address, timeout_s=LOOKUP_S, must_exist=True)
            names = (name for name in lookup(store) if name.startswith(incomplete))
            found.extend(islice(names, SHOWN_COUNT_MAX))

    thread = threading.Thread(target=look, name="zbk-completion", daemon=True)
    thread.start()
    thread.join(LOOKUP_S)
    return [] if thread.is_alive() else found


def _default_address() -> str:
    from zbk.system.context import read_context

    return os.environ.get("ZBK_METADATA") or read_context() or ""


def _load_store(address: str) -> None:
    scheme = "zookeeper" if address.startswith(("zk:", "zk+tls:")) else "sqlite"
    importlib.import_module(f"zbk.metadata.stores.{scheme}")


def _ledger_ids() -> Lookup:
    from zbk.metadata.records.ledgers import LedgerStore

    return lambda store: map(str, LedgerStore(store).list())


def _bookie_ids() -> Lookup:
    from zbk.metadata.paths import COOKIES

    return lambda store: store.children(COOKIES)


def _log_names() -> Lookup:
    from zbk.metadata.records.logs import LogStore

    return lambda store: LogStore(store).list()


def _data_set_names() -> Lookup:
    from zbk.metadata.records.datasets import DataSetStore

    return lambda store: DataSetStore(store).list()
