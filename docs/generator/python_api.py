"""The sections of the Python API: the docstrings of all public names, by mkdocstrings."""

from typing import Final

import zbk
from docs.generator.text import page
from zbk.errors import ERROR_BY_CODE

PARTS: Final = {
    "Connect": ("connect", "Client", "ClientOptions", "ClientConfig"),
    "Ledgers": ("LedgerWriter", "LedgerReader", "LedgerTail", "TailGroup", "TailedBatch",
                "LedgerOptions", "Entry", "ReadBatch", "NO_ENTRY", "LedgerType", "DigestType",
                "LedgerState", "LedgerMetadata", "LedgerCopy", "LedgerAccess", "Right", "Fragment"),
    "Logs": ("Log", "LogTail", "LogEntry", "LogPosition", "LogRange", "LogMetadata"),
    "Data sets": ("DataSets", "DataSet", "Version", "Load", "LoadKind", "LoadState", "LoadTicket",
                  "Aborted", "Collected", "Snapshot", "DataLedger", "ColumnStats"),
    "The cluster": ("BookieInfo", "BookieRegistration", "GarbageStatus", "ScrubStatus",
                    "UnderreplicatedLedger"),
}  # fmt: skip
"""All public names but errors, which have a page of their own."""


def python_api() -> str:
    """Return the places of all docstrings, for mkdocstrings.

    Raises:
        ValueError: a public name is in no part, or a part has a name that is not public.
    """
    errors = {error.__name__ for error in ERROR_BY_CODE.values()}
    difference = {name for names in PARTS.values() for name in names} ^ (set(zbk.__all__) - errors)
    if difference:
        raise ValueError(f"names of this page and of zbk.__all__ differ: {difference}")
    parts: list[str] = []
    for heading, names in PARTS.items():
        parts += [f"## {heading}", *(f"::: zbk.{name}" for name in names)]
    return page(*parts)
