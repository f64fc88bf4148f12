"""Every error zbk raises on purpose, in one tree.

* ``ZbkError``
    * ``CallerError``                    the call was wrong; sending it again cannot help
        * ``InvalidQuorumError``
        * ``InvalidOptionError``         an option, a config value or an address
            * ``ArgumentValueError``     an argument of a call; also a ``ValueError``
            * ``ArgumentTypeError``      likewise; also a ``TypeError``
        * ``EntryTooLargeError``
        * ``UnauthorizedError``          wrong ledger password
        * ``NoSuchLedgerError``
        * ``NoSuchEntryError``           said only on an index miss
        * ``LedgerExistsError``
        * ``LedgerClosedError``
        * ``ReadBeyondLacError``
        * ``ClientClosedError``
        * ``ForkedProcessError``
        * ``UnsupportedLedgerError``     e.g. a striped VD ledger
        * ``MissingDependencyError``     no Java, no jars, no extra
        * ``ReaderClosedError``          this handle, not the ledger
        * ``NoSuchLogError``
        * ``LogClosedError``
        * ``LogTruncatedError``          the position was cut off
        * ``NoSuchDataSetError``
        * ``NoSuchVersionError``         of a data set
        * ``LoadAbortedError``           somebody aborted the load; begin another one
        * ``DataSetConflictError``       another load, or another schema, is in the way
    * ``LedgerFencedError``              another client took the ledger over; stop writing
    * ``AppendUnansweredError``          the writer ended before the bookies had answered
    * ``LogFencedError``                 another client took the log over; stop writing
    * ``UnavailableError``               something did not answer; trying again may help
        * ``MetadataUnavailableError``
        * ``BookieUnavailableError``
        * ``NotEnoughBookiesError``
        * ``RequestTimeoutError``
        * ``BusyError``                  a named limit was reached
        * ``BookieReadOnlyError``
        * ``TooManyOpenFilesError``      this process cannot connect: ``ulimit -n``
        * ``CannotAdvanceError``         sync: the LAC cannot reach what was asked
        * ``LedgerRecoveryError``        too few bookies say yes or no; still IN_RECOVERY
        * ``BookieInUseError``           it runs, or ledgers still name it
    * ``MetadataConflictError``          somebody else changed the node first
        * ``BadVersionError``
        * ``NodeExistsError``
        * ``NoNodeError``
        * ``NotEmptyError``
        * ``IllegalTransitionError``
    * ``NotDurableError``                close: its end is not durable, or in doubt; still open
    * ``DamageError``                    bytes on disk or on the wire fail their check
        * ``CorruptRecordError``
            * ``ShortRecordError``       the bytes end before the record does
        * ``DigestMismatchError``
        * ``CorruptJournalError``        damage before valid records: refused
        * ``EntryUnreadableError``       the bookie has it and cannot read it
    * ``WireError``                      the peer does not speak our protocol
        * ``MalformedMessageError``
        * ``UnsupportedVersionError``
        * ``UnknownOperationError``
        * ``WrongBookieError``           other instance, bookie or incarnation than meant
        * ``HelloRequiredError``
    * ``BookieError``                    a bookie cannot start or go on
        * ``StorageFailedError``         a write or fsync failed: the bookie stops
            * ``NoSpaceError``           nothing was lost: the bookie is read-only until there is
                * ``OutOfDescriptorsError``   nothing was lost: the bookie is busy meanwhile
        * ``MemoryExhaustedError``       ``memory_max`` was reached: the bookie stops
        * ``TooFewDescriptorsError``     ``ulimit -n`` is too small for the configuration
        * ``CookieMismatchError``
        * ``LostHistoryError``         the cluster knows more of the bookie than its directories
        * ``DirectoryInUseError``
        * ``ScatteredLedgerError``       entries in too many places far from each other
        * ``DuplicateEntryError``        same id, other bytes
        * ``UnknownLedgerStateError``    neither yes nor no

Three class attributes say what a caller may do, so that nobody matches on text: ``code`` is the
number sent on the wire (never reused), ``is_retriable`` says whether the same request may succeed
later, unchanged, and ``outcome`` says of an add whether it surely did not happen (``"failed"``) or
may or may not have happened (``"unknown"``).

>>> import pickle
>>> error = pickle.loads(pickle.dumps(NoSuchEntryError(7, 9)))
>>> error.code, error.is_retriable, str(error)
(106, False, 'ledger 7 has no entry 9')
"""

from typing import Any, ClassVar, Final, Literal

Outcome = Literal["failed", "unknown"]


class ZbkError(Exception):
    """Base of all zbk errors. Fields go to ``super().__init__`` so errors pickle."""

    code: ClassVar[int] = 0
    is_retriable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = "failed"

    def fields(self) -> tuple[Any, ...]:
        """Return the constructor's arguments: what travels on the wire."""
        return self.args


# ------------------------------------------------------------------ the call was wrong


class CallerError(ZbkError):
    """The call was wrong; sending it again cannot help."""

    code = 100


class InvalidQuorumError(CallerError):
    """The sizes break ``ensemble >= write quorum >= ack quorum >= 1``."""

    code = 101

    def __init__(self, ensemble_size: int, write_quorum_size: int, ack_quorum_size: int) -> None:
        super().__init__(ensemble_size, write_quorum_size, ack_quorum_size)

    def __str__(self) -> str:
        ensemble, write, ack = self.args
        return (
            "need ensemble size >= write quorum size >= ack quorum size >= 1, "
            f"got {ensemble}, {write}, {ack}"
        )


class InvalidOptionError(CallerError):
    """An option, a configuration value or an address cannot be used."""

    code = 102

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(name, value if isinstance(value, int | float) else str(value), reason)

    def __str__(self) -> str:
        name, value, reason = self.args
        return f"{name}={value!r}: {reason}"


class ArgumentValueError(InvalidOptionError, ValueError):
    """An argument of a call cannot have this value; nothing was sent or made."""

    code = 130


class ArgumentTypeError(InvalidOptionError, TypeError):
    """An argument of a call cannot be of this type; nothing was sent or made."""

    code = 131


class EntryTooLargeError(CallerError):
    """The payload is larger than the limit. Sizes in bytes."""

    code = 103

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(size, size_max)

    def __str__(self) -> str:
        size, size_max = self.args
        return f"an entry of {size} bytes is over the limit of {size_max} bytes"


class UnauthorizedError(CallerError):
    """The ledger's password is another one."""

    code = 104

    def __init__(self, ledger_id: int) -> None:
        super().__init__(ledger_id)

    def __str__(self) -> str:
        return f"wrong password for ledger {self.args[0]}"


class NoSuchLedgerError(CallerError):
    """The metadata store, or a bookie, has no such ledger."""

    code = 105

    def __init__(self, ledger_id: int) -> None:
        super().__init__(ledger_id)

    def __str__(self) -> str:
        return f"no ledger {self.args[0]}"


class NoSuchEntryError(CallerError):
    """The index has no such entry. Never said of an entry that is damaged or unreadable."""

    code = 106

    def __init__(self, ledger_id: int, entry_id: int) -> None:
        super().__init__(ledger_id, entry_id)

    def __str__(self) -> str:
        ledger_id, entry_id = self.args
        return f"ledger {ledger_id} has no entry {entry_id}"


class LedgerExistsError(CallerError):
    """The ledger id is taken."""

    code = 107

    def __init__(self, ledger_id: int) -> None:
        super().__init__(ledger_id)

    def __str__(self) -> str:
        return f"ledger {self.args[0]} exists"


class LedgerClosedError(CallerError):
    """The ledger is closed."""

    code = 108

    def __init__(self, ledger_id: int, last_entry_id: int | None = None) -> None:
        super().__init__(ledger_id, last_entry_id)

    def __str__(self) -> str:
        ledger_id, last_entry_id = self.args
        end = "" if last_entry_id is None else f" at entry {last_entry_id}"
        return f"ledger {ledger_id} is closed{end}"


class ReadBeyondLacError(CallerError):
    """A confirmed read asked for entries after the LAC."""

    code = 109

    def __init__(self, ledger_id: int, last_entry_id: int, lac: int) -> None:
        super().__init__(ledger_id, last_entry_id, lac)

    def __str__(self) -> str:
        ledger_id, last_entry_id, lac = self.args
        return (
            f"ledger {ledger_id}: entry {last_entry_id} is after the last add confirmed ({lac}); "
            "read_last_add_confirmed() looks again, read_unconfirmed() reads on without a promise"
        )


class ClientClosedError(CallerError):
    """The client, or what it belongs to, was closed."""

    code = 110

    def __str__(self) -> str:
        return "the client is closed"


class ForkedProcessError(CallerError):
    """A client made before ``fork()`` was used in the child. Connect again in the child."""

    code = 111

    def __init__(self, owner_pid: int, pid: int) -> None:
        super().__init__(owner_pid, pid)

    def __str__(self) -> str:
        owner_pid, pid = self.args
        return (
            f"this client belongs to process {owner_pid} and cannot be used in its forked "
            f"child {pid}: call zbk.connect() in the child"
        )


class UnsupportedLedgerError(CallerError):
    """This combination of ledger type and sizes is not supported."""

    code = 112

    def __init__(self, reason: str) -> None:
        super().__init__(reason)

    def __str__(self) -> str:
        return str(self.args[0])


class MissingDependencyError(CallerError):
    """A program or package that this command needs is not installed. Says the cures."""

    code = 113

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(what, cure)

    def __str__(self) -> str:
        what, cure = self.args
        return f"{what}: {cure}"


class NoSuchLogError(CallerError):
    """The metadata store has no log of this name."""

    code = 114

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return f"no log {self.args[0]!r}"


class LogClosedError(CallerError):
    """This handle of a log was closed."""

    code = 115

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return f"this handle of log {self.args[0]!r} is closed"


class LogTruncatedError(CallerError):
    """What was to be read was cut off the log. ``position`` and ``first`` are ``LEDGER:ENTRY``."""

    code = 116

    def __init__(self, name: str, position: str, first: str) -> None:
        super().__init__(name, position, first)

    def __str__(self) -> str:
        name, position, first = self.args
        return f"log {name!r} was truncated: {position} is gone, it begins at {first}"


class ReaderClosedError(CallerError):
    """This handle of a reader was closed. The ledger is as it was."""

    code = 117

    def __init__(self, ledger_id: int) -> None:
        super().__init__(ledger_id)

    def __str__(self) -> str:
        return f"this reader of ledger {self.args[0]} is closed: open the ledger again"


class NoSuchDataSetError(CallerError):
    """The metadata store has no data set of this name."""

    code = 120

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return f"no data set {self.args[0]!r}: `zbk dataset ls` shows those there are"


class NoSuchVersionError(CallerError):
    """A data set has no such version. ``version`` 0 stands for the last one, where none is."""

    code = 121

    def __init__(self, name: str, version: int, last_version: int) -> None:
        super().__init__(name, version, last_version)

    def __str__(self) -> str:
        name, version, last_version = self.args
        if not last_version:
            return f"data set {name!r} has no version yet: no load was committed"
        return f"data set {name!r} has no version {version}; the last one is {last_version}"


class LoadAbortedError(CallerError):
    """A load was aborted, or took longer than its time; nothing of it is visible."""

    code = 122

    def __init__(self, name: str, load_id: str) -> None:
        super().__init__(name, load_id)

    def __str__(self) -> str:
        name, load_id = self.args
        return (
            f"load {load_id} of data set {name!r} was aborted, or expired; nothing of it is "
            "visible: run it again"
        )


class DataSetConflictError(CallerError):
    """What a load wants does not go together with what the data set is by now."""

    code = 123

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)

    def __str__(self) -> str:
        name, reason = self.args
        return f"data set {name!r}: {reason}"


# ------------------------------------------------------------------ fenced


class LedgerFencedError(ZbkError):
    """Another client took the ledger over. The add may or may not be in the ledger."""

    code = 200
    outcome: ClassVar[Outcome] = "unknown"

    def __init__(self, ledger_id: int) -> None:
        super().__init__(ledger_id)

    def __str__(self) -> str:
        return f"ledger {self.args[0]} was fenced: another client is recovering or has closed it"


class AppendUnansweredError(ZbkError):
    """The writer ended before an append was answered. It may or may not be in the ledger."""

    code = 201
    outcome: ClassVar[Outcome] = "unknown"

    def __init__(self, ledger_id: int, reason: str) -> None:
        super().__init__(ledger_id, reason)

    def __str__(self) -> str:
        ledger_id, reason = self.args
        return f"the writer of ledger {ledger_id} ended before the append was answered: {reason}"


class LogFencedError(ZbkError):
    """Another client took the log over. The append may or may not be in it."""

    code = 202
    outcome: ClassVar[Outcome] = "unknown"

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return f"log {self.args[0]!r} was taken over by another client"


# ------------------------------------------------------------------ did not answer


class UnavailableError(ZbkError):
    """Something did not answer, or not in time."""

    code = 300
    is_retriable = True
    outcome: ClassVar[Outcome] = "unknown"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)

    def __str__(self) -> str:
        return str(self.args[0])


class MetadataUnavailableError(UnavailableError):
    """The metadata store did not answer, or its session is gone."""

    code = 301

    def __init__(self, address: str, reason: str) -> None:
        ZbkError.__init__(self, address, reason)

    def __str__(self) -> str:
        address, reason = self.args
        return f"metadata store {address}: {reason}"


class BookieUnavailableError(UnavailableError):
    """A bookie could not be reached, or its connection was lost."""

    code = 302

    def __init__(self, bookie_id: str, reason: str) -> None:
        ZbkError.__init__(self, bookie_id, reason)

    def __str__(self) -> str:
        bookie_id, reason = self.args
        return f"bookie {bookie_id}: {reason}"


class NotEnoughBookiesError(UnavailableError):
    """Fewer bookies than needed are there, or the ack quorum can no longer be reached."""

    code = 303

    def __init__(self, needed_count: int, available_count: int, reason: str) -> None:
        ZbkError.__init__(self, needed_count, available_count, reason)

    def __str__(self) -> str:
        needed_count, available_count, reason = self.args
        return f"need {needed_count} bookies, have {available_count}: {reason}"


class RequestTimeoutError(UnavailableError):
    """No answer within the time given, in seconds. What was asked may still happen."""

    code = 304

    def __init__(self, what: str, timeout_s: float) -> None:
        ZbkError.__init__(self, what, timeout_s)

    def __str__(self) -> str:
        what, timeout_s = self.args
        return f"{what}: no answer within {timeout_s:g} s"


class BusyError(UnavailableError):
    """A named limit was reached; slow down and try again."""

    code = 305
    outcome: ClassVar[Outcome] = "failed"


class TooManyOpenFilesError(UnavailableError):
    """This process has as many files and connections open as it may have."""

    code = 321
    outcome: ClassVar[Outcome] = "failed"

    def __init__(self, what: str) -> None:
        super().__init__(what)

    def __str__(self) -> str:
        return (
            f"{self.args[0]}: this process has too many files open; raise `ulimit -n`, or close "
            "clients and files that are not needed"
        )


class BookieReadOnlyError(UnavailableError):
    """The bookie takes no new entries now."""

    code = 306
    outcome: ClassVar[Outcome] = "failed"

    def __init__(self, bookie_id: str) -> None:
        ZbkError.__init__(self, bookie_id)

    def __str__(self) -> str:
        return f"bookie {self.args[0]} is read-only"


class CannotAdvanceError(UnavailableError):
    """``sync()`` has heard every bookie that answers, and the LAC cannot reach what was asked."""

    code = 307

    def __init__(
        self,
        ledger_id: int,
        last_durable_id: int,
        wanted_id: int | None,  # None: how far it is durable is not known
        reason: str,
    ) -> None:
        ZbkError.__init__(self, ledger_id, last_durable_id, wanted_id, reason)

    @property
    def last_durable_id(self) -> int:
        """Last entry id that is known to be durable on an ack quorum; -1 is none."""
        return int(self.args[1])

    def __str__(self) -> str:
        ledger_id, last_durable_id, wanted_id, reason = self.args
        if wanted_id is None:
            known = f", only that entries up to {last_durable_id} are" * (last_durable_id >= 0)
            return (
                f"ledger {ledger_id}: too few bookies answer to know how far it is durable{known}: "
                f"{reason}"
            )
        return (
            f"ledger {ledger_id}: durable up to entry {last_durable_id}, not {wanted_id}: {reason}"
        )


class LedgerRecoveryError(UnavailableError):
    """A ledger's end cannot be known now. It stays IN_RECOVERY; recover it again later."""

    code = 308

    def __init__(self, ledger_id: int, reason: str) -> None:
        ZbkError.__init__(self, ledger_id, reason)

    def __str__(self) -> str:
        ledger_id, reason = self.args
        return f"ledger {ledger_id} cannot be recovered now: {reason}"


class BookieInUseError(UnavailableError):
    """A bookie cannot be taken out of service yet."""

    code = 309

    def __init__(self, bookie_id: str, reason: str) -> None:
        ZbkError.__init__(self, bookie_id, reason)

    def __str__(self) -> str:
        bookie_id, reason = self.args
        return f"bookie {bookie_id} stays in service: {reason}"


# ------------------------------------------------------------------ metadata conflicts


class MetadataConflictError(ZbkError):
    """A compare-and-swap lost, or a node is not as expected."""

    code = 400

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(path, reason)

    def __str__(self) -> str:
        path, reason = self.args
        return f"{path}: {reason or type(self).__name__}"


class BadVersionError(MetadataConflictError):
    """The node's version is another one: somebody else changed it first."""

    code = 401


class NodeExistsError(MetadataConflictError):
    """The node exists."""

    code = 402


class NoNodeError(MetadataConflictError):
    """The node does not exist: an explicit answer of the store."""

    code = 403


class NotEmptyError(MetadataConflictError):
    """The node has children."""

    code = 404


class IllegalTransitionError(MetadataConflictError):
    """The ledger's metadata may not change in this way."""

    code = 405


class NotDurableError(ZbkError):
    """``close()`` of a VD ledger: its end is not durable, or not known. The ledger stays open.

    Either acknowledged entries are not durable; a later close may find that they are. Or
    ``last_sent_id`` is above ``last_acked_id``: after a failed append, other clients may have
    synced and read entries that were never acknowledged to this writer. Only a recovery finds the
    end then.
    """

    code = 410
    is_retriable = True

    def __init__(
        self,
        ledger_id: int,
        last_durable_id: int,
        last_acked_id: int,
        reason: str = "",
        last_sent_id: int = -1,
    ) -> None:
        super().__init__(ledger_id, last_durable_id, last_acked_id, reason, last_sent_id)

    @property
    def last_durable_id(self) -> int:
        """Last entry id that is durable on an ack quorum; -1 is none."""
        return int(self.args[1])

    @property
    def last_acked_id(self) -> int:
        """Last entry id that was acknowledged."""
        return int(self.args[2])

    @property
    def last_sent_id(self) -> int:
        """Last entry id that was sent to bookies; at least ``last_acked_id``."""
        return max(self.last_acked_id, int(self.args[4]))

    def __str__(self) -> str:
        ledger_id, last_durable_id, last_acked_id, reason, _last_sent_id = self.args
        cause = f" ({reason})" if reason else ""
        stays = (
            f"ledger {ledger_id} stays open: entries up to {last_acked_id} are acknowledged, and "
            f"durable on an ack quorum up to {last_durable_id}{cause}. "
        )
        if self.last_sent_id > last_acked_id:
            return (
                f"{stays}Entries up to {self.last_sent_id} were sent, and other clients may have "
                "synced them, so this writer cannot decide where the ledger ends. Once it is gone, "
                f"run `zbk ledger recover {ledger_id}`"
            )
        return (
            f"{stays}Nothing is dropped: close it again when its bookies are back, or, once its "
            f"writer is gone, run `zbk ledger recover {ledger_id}`"
        )


# ------------------------------------------------------------------ damage


class DamageError(ZbkError):
    """Bytes on disk or on the wire fail their check."""

    code = 500


class CorruptRecordError(DamageError):
    """A record's length, ids or checksum are wrong. ``where`` names file or message."""

    code = 501

    def __init__(self, where: str, offset: int, reason: str) -> None:
        super().__init__(where, offset, reason)

    @property
    def offset(self) -> int:
        """Byte offset of the record in its file or message."""
        return int(self.args[1])

    @property
    def reason(self) -> str:
        """What is wrong, without the place."""
        return str(self.args[2])

    def __str__(self) -> str:
        where, offset, reason = self.args
        return f"{where} at byte {offset}: {reason}"


class ShortRecordError(CorruptRecordError):
    """The bytes end inside the record."""

    code = 502


class DigestMismatchError(DamageError):
    """An entry's digest is not the one of its bytes."""

    code = 503

    def __init__(self, ledger_id: int, entry_id: int) -> None:
        super().__init__(ledger_id, entry_id)

    def __str__(self) -> str:
        ledger_id, entry_id = self.args
        return f"ledger {ledger_id} entry {entry_id}: the digest does not match"


class CorruptJournalError(DamageError):
    """A journal is damaged where records were promised: this is no torn tail."""

    code = 504

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(path, offset, reason)

    def __str__(self) -> str:
        path, offset, reason = self.args
        return (
            f"journal {path} is damaged at byte {offset} ({reason}): "
            "refusing to start. Acknowledged entries may be in the damaged part. "
            f"Look at it with `zbk inspect journal {path}`; re-replicate this bookie's ledgers "
            "from its peers before you remove anything"
        )


class EntryUnreadableError(DamageError):
    """The bookie holds the entry and cannot read it. Not a "no"."""

    code = 505

    def __init__(self, ledger_id: int, entry_id: int, reason: str) -> None:
        super().__init__(ledger_id, entry_id, reason)

    def __str__(self) -> str:
        ledger_id, entry_id, reason = self.args
        return f"ledger {ledger_id} entry {entry_id} is unreadable: {reason}"


# ------------------------------------------------------------------ wire


class WireError(ZbkError):
    """The peer does not speak our protocol."""

    code = 600

    def __init__(self, reason: str) -> None:
        super().__init__(reason)

    def __str__(self) -> str:
        return str(self.args[0])


class MalformedMessageError(WireError):
    """A message cannot be decoded."""

    code = 601


class UnsupportedVersionError(WireError):
    """The peer's protocol versions and ours do not meet."""

    code = 602


class UnknownOperationError(WireError):
    """The peer asks for an operation that we do not know."""

    code = 603


class WrongBookieError(WireError):
    """The request was meant for another instance, bookie or incarnation."""

    code = 604
    is_retriable = True


class HelloRequiredError(WireError):
    """The bookie does not know this connection (any more): say HELLO first."""

    code = 605
    is_retriable = True


# ------------------------------------------------------------------ bookie


class BookieError(ZbkError):
    """A bookie cannot start, or not go on."""

    code = 700
    outcome: ClassVar[Outcome] = "unknown"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)

    def __str__(self) -> str:
        return str(self.args[0])


class StorageFailedError(BookieError):
    """A write or an fsync failed. The bookie stops: an fsync is never tried again."""

    code = 701

    def __init__(self, path: str, operation: str, reason: str) -> None:
        ZbkError.__init__(self, path, operation, reason)

    def __str__(self) -> str:
        path, operation, reason = self.args
        return f"{operation} of {path} failed: {reason}"


class NoSpaceError(StorageFailedError):
    """A write found no space. Nothing of it was promised; the bookie goes on, read-only."""

    code = 709
    is_retriable = True


class OutOfDescriptorsError(NoSpaceError):
    """A file was not opened: too many are open. Nothing was lost, and it may be opened later."""

    code = 722

    def __str__(self) -> str:
        path, operation, reason = self.args
        return (
            f"{operation} of {path} failed: {reason}: too many files and connections are open; "
            "raise `ulimit -n`, or lower connection_count_max or open_files_max"
        )


class MemoryExhaustedError(BookieError):
    """The bookie has used up the memory that it may have. It stops; what it promised is kept."""

    code = 723

    def __init__(self, size_max: int) -> None:
        ZbkError.__init__(self, size_max)

    def __str__(self) -> str:
        (size_max,) = self.args
        limit = f"memory_max of {size_max} bytes" if size_max else "memory of this machine"
        return (
            f"the {limit} is used up: start the bookie again; if it comes back, look for many "
            "clients or large entries (`zbk bookie show`), or give it more"
        )


class TooFewDescriptorsError(BookieError):
    """The process may have too few descriptors for the bookie's configuration."""

    code = 721
    outcome: ClassVar[Outcome] = "failed"

    def __init__(self, limit: int, needed: int) -> None:
        ZbkError.__init__(self, limit, needed)

    def __str__(self) -> str:
        limit, needed = self.args
        return (
            f"the process may have {limit} file descriptors, and this bookie needs about {needed}: "
            f"start it after `ulimit -n {needed}`, or with fewer directories"
        )


class CookieMismatchError(BookieError):
    """A directory or the metadata names another bookie."""

    code = 702
    outcome: ClassVar[Outcome] = "failed"


class LostHistoryError(BookieError):
    """The cluster knows that the bookie has served; its directories do not show it.

    ``known`` is what the cluster knows, ``missing`` what the directories lack, ``cure`` what to do.
    """

    code = 710
    outcome: ClassVar[Outcome] = "failed"

    def __init__(self, bookie_id: str, known: str, missing: str, cure: str) -> None:
        ZbkError.__init__(self, bookie_id, known, missing, cure)

    def __str__(self) -> str:
        bookie_id, known, missing, cure = self.args
        return (
            f"bookie {bookie_id} has lost its history: the cluster knows {known}, but {missing}. "
            "A disk is not mounted, was wiped or restored from an older copy, or only the cookie "
            "was copied. The bookie would deny entries that it has acknowledged, so it does not "
            f"start: {cure}"
        )


class DirectoryInUseError(BookieError):
    """Another bookie process holds the directory."""

    code = 703
    outcome: ClassVar[Outcome] = "failed"


class ScatteredLedgerError(BookieError):
    """A ledger has entries in too many places far from each other at this bookie."""

    code = 711

    def __init__(self, ledger_id: int, entry_id: int, count_max: int) -> None:
        ZbkError.__init__(self, ledger_id, entry_id, count_max)

    def __str__(self) -> str:
        ledger_id, entry_id, count_max = self.args
        return (
            f"entry {entry_id} of ledger {ledger_id} is refused: this bookie keeps runs of the "
            f"ledger's entries in up to {count_max} places far from each other, and has as many. "
            "No writer and no repair gets there; is a client making up entry ids?"
        )


class DuplicateEntryError(BookieError):
    """The entry id is stored already, with other bytes."""

    code = 704
    outcome: ClassVar[Outcome] = "failed"

    def __init__(self, ledger_id: int, entry_id: int) -> None:
        ZbkError.__init__(self, ledger_id, entry_id)

    def __str__(self) -> str:
        ledger_id, entry_id = self.args
        return f"ledger {ledger_id} entry {entry_id} is stored already, with other bytes"


class UnknownLedgerStateError(BookieError):
    """The bookie may have lost parts of this ledger: neither yes nor no."""

    code = 705
    is_retriable = True

    def __init__(self, ledger_id: int, bookie_id: str) -> None:
        ZbkError.__init__(self, ledger_id, bookie_id)

    def __str__(self) -> str:
        ledger_id, bookie_id = self.args
        return (
            f"bookie {bookie_id} may have lost parts of ledger {ledger_id}, and says neither yes "
            f"nor no until it has checked it against its peers: try again, or see "
            f"`zbk bookie show {bookie_id}`"
        )


def _tree(root: type[ZbkError]) -> dict[int, type[ZbkError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        below = _tree(child)
        assert not found.keys() & below.keys(), f"error code reused below {child.__name__}"
        found |= below
    return found


ERROR_BY_CODE: dict[int, type[ZbkError]] = _tree(ZbkError)


def from_wire(code: int, fields: tuple[Any, ...]) -> ZbkError:
    """Rebuild an error that a peer sent; an unknown code becomes a plain ``BookieError``.

    >>> from_wire(200, (7,))
    LedgerFencedError(7)
    """
    error_type = ERROR_BY_CODE.get(code, BookieError)
    try:
        error = error_type(*fields)
        str(error)
    except (TypeError, ValueError, IndexError):
        return BookieError(f"error {code} with fields {fields!r}")
    return error


# ------------------------------------------------------------------ exit codes of commands

EXIT_CALLER: Final = 1
EXIT_UNAVAILABLE: Final = 3
EXIT_DAMAGE: Final = 4
EXIT_NOT_DURABLE: Final = 5
EXIT_BOOKIE: Final = 6
EXIT_LOST_HISTORY: Final = 7

_EXIT_CODES: Final[tuple[tuple[type[ZbkError], int], ...]] = (
    (LedgerFencedError, EXIT_NOT_DURABLE),
    (LogFencedError, EXIT_NOT_DURABLE),
    (NotDurableError, EXIT_NOT_DURABLE),
    (CannotAdvanceError, EXIT_NOT_DURABLE),
    (MetadataConflictError, EXIT_NOT_DURABLE),
    (CallerError, EXIT_CALLER),
    (DamageError, EXIT_DAMAGE),
    (LostHistoryError, EXIT_LOST_HISTORY),
    (BookieError, EXIT_BOOKIE),
)


def exit_code_of(error_type: type[ZbkError]) -> int:
    """Return the exit code that stands for errors of a type, in all commands and jobs.

    >>> exit_code_of(NoSuchLedgerError), exit_code_of(LogFencedError)
    (1, 5)
    """
    codes = (code for one, code in _EXIT_CODES if issubclass(error_type, one))
    return next(codes, EXIT_UNAVAILABLE)
