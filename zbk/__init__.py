"""zbk: replicated ledgers in Python, with pluggable durability.

    import zbk

    with zbk.connect() as client:
        with client.create_ledger(ledger_type=zbk.LedgerType.VD_JOURNAL) as ledger:
            ledger.append(b"payload")
            ledger.sync()
        reader = client.open_ledger(ledger.ledger_id)
        for entry in reader.read(0, reader.last_add_confirmed):
            print(entry.entry_id, entry.payload)

Everything public is a name of this module; errors are in ``zbk.errors`` and here. Importing zbk
loads nothing else until a name is used, and starts no thread.
"""

from typing import TYPE_CHECKING, Any

from zbk import errors as _errors

__version__ = "0.1.0"

_HOMES = {
    "Client": "zbk.client.api",
    "connect": "zbk.client.api",
    "LedgerWriter": "zbk.client.ledger_writer",
    "LedgerReader": "zbk.client.ledger_reader",
    "LedgerTail": "zbk.client.tail",
    "DataLedger": "zbk.protocol.manifest",
    "DataSet": "zbk.protocol.dataset",
    "DataSets": "zbk.client.datasets",
    "LoadKind": "zbk.protocol.dataset",
    "LoadState": "zbk.protocol.dataset",
    "LoadTicket": "zbk.client.datasets",
    "ColumnStats": "zbk.protocol.manifest",
    "Snapshot": "zbk.client.datasets",
    "Log": "zbk.client.log",
    "LogEntry": "zbk.protocol.log_position",
    "LogMetadata": "zbk.protocol.log_metadata",
    "LogPosition": "zbk.protocol.log_position",
    "LogRange": "zbk.protocol.log_position",
    "LogTail": "zbk.client.log_tail",
    "Entry": "zbk.protocol.entry",
    "ReadBatch": "zbk.protocol.read_batch",
    "LedgerMetadata": "zbk.protocol.ledger_metadata",
    "Fragment": "zbk.protocol.ledger_metadata",
    "DigestType": "zbk.protocol.words",
    "LedgerState": "zbk.protocol.words",
    "LedgerType": "zbk.protocol.words",
    "NO_ENTRY": "zbk.protocol.words",
}

if TYPE_CHECKING:
    from zbk.client.api import Client, connect
    from zbk.client.datasets import DataSets, LoadTicket, Snapshot
    from zbk.client.ledger_reader import LedgerReader
    from zbk.client.ledger_writer import LedgerWriter
    from zbk.client.log import Log
    from zbk.client.log_tail import LogTail
    from zbk.client.tail import LedgerTail
    from zbk.errors import *  # noqa: F403 - the tree in zbk.errors is the list
    from zbk.protocol.dataset import DataSet, LoadKind, LoadState
    from zbk.protocol.entry import Entry
    from zbk.protocol.ledger_metadata import Fragment, LedgerMetadata
    from zbk.protocol.log_metadata import LogMetadata
    from zbk.protocol.log_position import LogEntry, LogPosition, LogRange
    from zbk.protocol.manifest import ColumnStats, DataLedger
    from zbk.protocol.read_batch import ReadBatch
    from zbk.protocol.words import NO_ENTRY, DigestType, LedgerState, LedgerType

_ERRORS = {error.__name__ for error in _errors.ERROR_BY_CODE.values()}

__all__ = [  # noqa: PLE0604 - names of errors come from their tree
    "NO_ENTRY",
    "Client",
    "ColumnStats",
    "DataLedger",
    "DataSet",
    "DataSets",
    "DigestType",
    "Entry",
    "Fragment",
    "LedgerMetadata",
    "LedgerReader",
    "LedgerState",
    "LedgerTail",
    "LedgerType",
    "LedgerWriter",
    "LoadKind",
    "LoadState",
    "LoadTicket",
    "Log",
    "LogEntry",
    "LogMetadata",
    "LogPosition",
    "LogRange",
    "LogTail",
    "ReadBatch",
    "Snapshot",
    "connect",
    *sorted(_ERRORS),
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module may hold anything
    if name in _ERRORS:
        return getattr(_errors, name)
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'zbk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
