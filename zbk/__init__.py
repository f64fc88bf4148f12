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
from zbk.version import __version__ as __version__

_HOMES = {
    "Aborted": "zbk.client.dataset.datasets",
    "BookieInfo": "zbk.wire.messages",
    "BookieRegistration": "zbk.metadata.values",
    "Client": "zbk.client.api",
    "ClientConfig": "zbk.config",
    "ClientOptions": "zbk.config",
    "Collected": "zbk.client.dataset.garbage",
    "ColumnStats": "zbk.protocol.dataset.manifest",
    "connect": "zbk.client.api",
    "DataLedger": "zbk.protocol.dataset.manifest",
    "DataSet": "zbk.protocol.dataset.dataset",
    "DataSets": "zbk.client.dataset.datasets",
    "DigestType": "zbk.protocol.entry.words",
    "Entry": "zbk.protocol.entry.entry",
    "Fragment": "zbk.protocol.ledger.metadata",
    "GarbageStatus": "zbk.wire.messages",
    "LedgerAccess": "zbk.protocol.ledger.access",
    "LedgerCopy": "zbk.client.operations.ledger_copies",
    "LedgerMetadata": "zbk.protocol.ledger.metadata",
    "LedgerOptions": "zbk.client.write.ledger_creation",
    "LedgerReader": "zbk.client.read.ledger_reader",
    "LedgerState": "zbk.protocol.entry.words",
    "LedgerTail": "zbk.client.read.tail",
    "TailGroup": "zbk.client.read.tail_group",
    "TailedBatch": "zbk.client.read.tail_group",
    "LedgerType": "zbk.protocol.entry.words",
    "LedgerWriter": "zbk.client.write.ledger_writer",
    "Load": "zbk.protocol.dataset.dataset",
    "LoadKind": "zbk.protocol.dataset.dataset",
    "LoadState": "zbk.protocol.dataset.dataset",
    "LoadTicket": "zbk.client.dataset.datasets",
    "Log": "zbk.client.log.log",
    "LogEntry": "zbk.protocol.log.position",
    "LogMetadata": "zbk.protocol.log.metadata",
    "LogPosition": "zbk.protocol.log.position",
    "LogRange": "zbk.protocol.log.position",
    "LogTail": "zbk.client.log.tail",
    "NO_ENTRY": "zbk.protocol.entry.words",
    "ReadBatch": "zbk.protocol.entry.read_batch",
    "Right": "zbk.protocol.ledger.access",
    "ScrubStatus": "zbk.wire.messages",
    "Snapshot": "zbk.client.dataset.snapshots",
    "UnderreplicatedLedger": "zbk.protocol.repair.underreplicated",
    "Version": "zbk.protocol.dataset.dataset",
}

if TYPE_CHECKING:
    from zbk.client.api import Client, connect
    from zbk.client.dataset.datasets import Aborted, DataSets, LoadTicket
    from zbk.client.dataset.garbage import Collected
    from zbk.client.dataset.snapshots import Snapshot
    from zbk.client.log.log import Log
    from zbk.client.log.tail import LogTail
    from zbk.client.operations.ledger_copies import LedgerCopy
    from zbk.client.read.ledger_reader import LedgerReader
    from zbk.client.read.tail import LedgerTail
    from zbk.client.read.tail_group import TailedBatch, TailGroup
    from zbk.client.write.ledger_creation import LedgerOptions
    from zbk.client.write.ledger_writer import LedgerWriter
    from zbk.config import ClientConfig, ClientOptions
    from zbk.errors import (
        AccessDeniedError,
        AppendUnansweredError,
        ArgumentTypeError,
        ArgumentValueError,
        BadVersionError,
        BookieError,
        BookieInUseError,
        BookieReadOnlyError,
        BookieUnavailableError,
        BusyError,
        CallerError,
        CannotAdvanceError,
        ClientClosedError,
        CookieMismatchError,
        CorruptJournalError,
        CorruptRecordError,
        DamageError,
        DataSetConflictError,
        DigestMismatchError,
        DirectoryInUseError,
        DuplicateEntryError,
        EntryTooLargeError,
        EntryUnreadableError,
        ForkedProcessError,
        HelloRequiredError,
        IllegalTransitionError,
        InsecureBookieError,
        InvalidOptionError,
        InvalidQuorumError,
        KeyFileError,
        KeyRefusedError,
        LedgerClosedError,
        LedgerExistsError,
        LedgerFencedError,
        LedgerRecoveryError,
        LoadAbortedError,
        LogClosedError,
        LogFencedError,
        LogTruncatedError,
        LostHistoryError,
        MalformedMessageError,
        MemoryExhaustedError,
        MetadataAccessError,
        MetadataConflictError,
        MetadataUnavailableError,
        MissingDependencyError,
        NamespaceDeniedError,
        NamespaceFullError,
        NodeExistsError,
        NoNodeError,
        NoSpaceError,
        NoSuchDataSetError,
        NoSuchEntryError,
        NoSuchLedgerError,
        NoSuchLogError,
        NoSuchNamespaceError,
        NoSuchPrincipalError,
        NoSuchVersionError,
        NotDurableError,
        NotEmptyError,
        NotEnoughBookiesError,
        OldBookiesError,
        OutOfDescriptorsError,
        PrincipalRequiredError,
        ReadBeyondLacError,
        ReaderClosedError,
        RequestTimeoutError,
        RoleRequiredError,
        ScatteredLedgerError,
        SecurityMismatchError,
        ShortRecordError,
        StorageFailedError,
        TooFewDescriptorsError,
        TooManyOpenFilesError,
        UnauthorizedError,
        UnavailableError,
        UnknownLedgerStateError,
        UnknownOperationError,
        UnsupportedLedgerError,
        UnsupportedVersionError,
        WireError,
        WrongBookieError,
        ZbkError,
    )
    from zbk.metadata.values import BookieRegistration
    from zbk.protocol.dataset.dataset import DataSet, Load, LoadKind, LoadState, Version
    from zbk.protocol.dataset.manifest import ColumnStats, DataLedger
    from zbk.protocol.entry.entry import Entry
    from zbk.protocol.entry.read_batch import ReadBatch
    from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerState, LedgerType
    from zbk.protocol.ledger.access import LedgerAccess, Right
    from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
    from zbk.protocol.log.metadata import LogMetadata
    from zbk.protocol.log.position import LogEntry, LogPosition, LogRange
    from zbk.protocol.repair.underreplicated import UnderreplicatedLedger
    from zbk.wire.messages import BookieInfo, GarbageStatus, ScrubStatus

_ERRORS = {error.__name__ for error in _errors.ERROR_BY_CODE.values()}

__all__ = [
    "NO_ENTRY",
    "Aborted",
    "AccessDeniedError",
    "AppendUnansweredError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "BadVersionError",
    "BookieError",
    "BookieInUseError",
    "BookieInfo",
    "BookieReadOnlyError",
    "BookieRegistration",
    "BookieUnavailableError",
    "BusyError",
    "CallerError",
    "CannotAdvanceError",
    "Client",
    "ClientClosedError",
    "ClientConfig",
    "ClientOptions",
    "Collected",
    "ColumnStats",
    "CookieMismatchError",
    "CorruptJournalError",
    "CorruptRecordError",
    "DamageError",
    "DataLedger",
    "DataSet",
    "DataSetConflictError",
    "DataSets",
    "DigestMismatchError",
    "DigestType",
    "DirectoryInUseError",
    "DuplicateEntryError",
    "Entry",
    "EntryTooLargeError",
    "EntryUnreadableError",
    "ForkedProcessError",
    "Fragment",
    "GarbageStatus",
    "HelloRequiredError",
    "IllegalTransitionError",
    "InsecureBookieError",
    "InvalidOptionError",
    "InvalidQuorumError",
    "KeyFileError",
    "KeyRefusedError",
    "LedgerAccess",
    "LedgerClosedError",
    "LedgerCopy",
    "LedgerExistsError",
    "LedgerFencedError",
    "LedgerMetadata",
    "LedgerOptions",
    "LedgerReader",
    "LedgerRecoveryError",
    "LedgerState",
    "LedgerTail",
    "LedgerType",
    "LedgerWriter",
    "Load",
    "LoadAbortedError",
    "LoadKind",
    "LoadState",
    "LoadTicket",
    "Log",
    "LogClosedError",
    "LogEntry",
    "LogFencedError",
    "LogMetadata",
    "LogPosition",
    "LogRange",
    "LogTail",
    "LogTruncatedError",
    "LostHistoryError",
    "MalformedMessageError",
    "MemoryExhaustedError",
    "MetadataAccessError",
    "MetadataConflictError",
    "MetadataUnavailableError",
    "MissingDependencyError",
    "NamespaceDeniedError",
    "NamespaceFullError",
    "NoNodeError",
    "NoSpaceError",
    "NoSuchDataSetError",
    "NoSuchEntryError",
    "NoSuchLedgerError",
    "NoSuchLogError",
    "NoSuchNamespaceError",
    "NoSuchPrincipalError",
    "NoSuchVersionError",
    "NodeExistsError",
    "NotDurableError",
    "NotEmptyError",
    "NotEnoughBookiesError",
    "OldBookiesError",
    "OutOfDescriptorsError",
    "PrincipalRequiredError",
    "ReadBatch",
    "ReadBeyondLacError",
    "ReaderClosedError",
    "RequestTimeoutError",
    "Right",
    "RoleRequiredError",
    "ScatteredLedgerError",
    "ScrubStatus",
    "SecurityMismatchError",
    "ShortRecordError",
    "Snapshot",
    "StorageFailedError",
    "TailGroup",
    "TailedBatch",
    "TooFewDescriptorsError",
    "TooManyOpenFilesError",
    "UnauthorizedError",
    "UnavailableError",
    "UnderreplicatedLedger",
    "UnknownLedgerStateError",
    "UnknownOperationError",
    "UnsupportedLedgerError",
    "UnsupportedVersionError",
    "Version",
    "WireError",
    "WrongBookieError",
    "ZbkError",
    "connect",
]


if not TYPE_CHECKING:  # a type checker reads the imports above, and finds misspelled names

    def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module may hold anything
        if name in _ERRORS:
            return getattr(_errors, name)
        if name in _HOMES:
            import importlib

            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'zbk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
