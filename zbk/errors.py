"""All errors that zbk raises on purpose, in one tree.

* ``ZbkError``
    * ``CallerError``                    the call was wrong; repeating it cannot help
        * ``InvalidQuorumError``
        * ``InvalidOptionError``         an option, a config value or an address
            * ``ArgumentValueError``     an argument of a call; also a ``ValueError``
            * ``ArgumentTypeError``      likewise; also a ``TypeError``
        * ``EntryTooLargeError``
        * ``UnauthorizedError``          wrong ledger password
            * ``AccessDeniedError``      the principal lacks a right in the ledger
        * ``RoleRequiredError``          the principal lacks a role in the cluster
        * ``NoSuchLedgerError``
        * ``NoSuchEntryError``           raised only on an index miss
        * ``LedgerExistsError``
        * ``LedgerClosedError``
        * ``ReadBeyondLacError``
        * ``ClientClosedError``
        * ``ForkedProcessError``
        * ``UnsupportedLedgerError``     e.g. a request for another type
        * ``MissingDependencyError``     no Java, no jars, no extra
        * ``ReaderClosedError``          this handle, not the ledger
        * ``NoSuchLogError``
        * ``LogClosedError``
        * ``LogTruncatedError``          the position was cut off
        * ``NoSuchDataSetError``
        * ``NoSuchVersionError``         of a data set
        * ``LoadAbortedError``           another process aborted the load; start a new one
        * ``KeyFileError``               a key file cannot be read, or is no secret
        * ``NoSuchPrincipalError``
        * ``NoSuchNamespaceError``
        * ``NamespaceDeniedError``       the principal may not create ledgers in a namespace
        * ``NamespaceFullError``         a limit of a namespace is reached
        * ``PrincipalRequiredError``     a new ledger needs an owner, and the key has no principal
        * ``DataSetConflictError``       conflicts with another load, or with the schema
    * ``LedgerFencedError``              another client took the ledger over; stop writing
    * ``AppendUnansweredError``          the writer ended before the bookies had answered
    * ``LogFencedError``                 another client took the log over; stop writing
    * ``UnavailableError``               no answer; trying again may help
        * ``MetadataUnavailableError``
            * ``MetadataAccessError``    the metadata store refuses this process
        * ``BookieUnavailableError``
            * ``SecurityMismatchError``  one side encrypts and the other does not
            * ``KeyRefusedError``        the bookie knows no principal with the client's key
        * ``NotEnoughBookiesError``
        * ``OldBookiesError``                    upgrade the bookies that the error names
        * ``RequestTimeoutError``
        * ``BusyError``                  a named limit was reached
        * ``BookieReadOnlyError``
        * ``TooManyOpenFilesError``      this process cannot connect: ``ulimit -n``
        * ``CannotAdvanceError``         sync: the LAC cannot reach the requested entry
        * ``LedgerRecoveryError``        too few bookies answer; still IN_RECOVERY
        * ``BookieInUseError``           it runs, or ledgers still name it
    * ``MetadataConflictError``          another client changed the node first
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
    * ``WireError``                      the peer does not speak zbk's protocol
        * ``MalformedMessageError``
        * ``UnsupportedVersionError``
        * ``UnknownOperationError``
        * ``WrongBookieError``           meant for another instance, bookie or incarnation
        * ``HelloRequiredError``
    * ``BookieError``                    a bookie cannot start or continue
        * ``StorageFailedError``         a write or fsync failed: the bookie stops
            * ``NoSpaceError``           nothing was lost: the bookie is read-only until there is
                * ``OutOfDescriptorsError``   nothing was lost: the bookie is busy meanwhile
        * ``MemoryExhaustedError``       ``memory_max`` was reached: the bookie stops
        * ``TooFewDescriptorsError``     ``ulimit -n`` is too small for the configuration
        * ``InsecureBookieError``        no keys, and listens to other machines
        * ``CookieMismatchError``
        * ``LostHistoryError``           the cluster knows more of the bookie than its directories
        * ``DirectoryInUseError``
        * ``ScatteredLedgerError``       entries in too many places far from each other
        * ``DuplicateEntryError``        same id, other bytes
        * ``UnknownLedgerStateError``    neither yes nor no

Three class attributes say what a caller may do, so that callers need not match on text: ``code`` is
the number sent on the wire (never reused), ``is_retriable`` says whether the same request may
succeed later, unchanged, and ``outcome`` says of an add whether it certainly did not happen
(``"failed"``) or may have happened (``"unknown"``).

An error class is a declaration: its fields are the parameters of its constructor, in order, and its
``text`` is a format string over them. A class inherits the fields, text, ``is_retriable`` and
``outcome`` of its base.

>>> import pickle
>>> error = pickle.loads(pickle.dumps(NoSuchEntryError(7, entry_id=9)))
>>> error.code, error.is_retriable, str(error), error.entry_id
(106, False, 'ledger 7 has no entry 9', 9)
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, dataclass_transform

Outcome = Literal["failed", "unknown"]


@dataclass_transform(eq_default=False)
class ZbkError(Exception):
    """Base of all zbk errors."""

    code: ClassVar[int] = 0
    is_retriable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = "failed"
    text: ClassVar[str] = ""
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls,
        *,
        code: int | None = None,
        is_retriable: bool | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """Make the constructor from the fields; comparison and ``repr`` stay an exception's.

        A class without a code is an application's own and keeps the constructor of its base.
        """
        if code is None:
            return
        cls.code = code
        cls.is_retriable = cls.is_retriable if is_retriable is None else is_retriable
        cls.outcome = outcome or cls.outcome
        dataclass(eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        """Keep the fields in ``args`` too, which is what pickle and ``repr`` use."""
        self.args = tuple(getattr(self, name) for name in self.__match_args__)

    def __str__(self) -> str:
        """Return the text with the fields in it; without a text, the arguments."""
        return self.text.format_map(vars(self)) if self.text else super().__str__()

    def fields(self) -> tuple[Any, ...]:
        """Return the constructor's arguments: what travels on the wire."""
        return self.args


# ------------------------------------------------------------------ the call was wrong


class CallerError(ZbkError, code=100):
    """The call was wrong; repeating it cannot help."""


class InvalidQuorumError(CallerError, code=101):
    """The sizes break ``ensemble >= write quorum >= ack quorum >= 1``."""

    text = (
        "need ensemble size >= write quorum size >= ack quorum size >= 1, "
        "got {ensemble_size}, {write_quorum_size}, {ack_quorum_size}"
    )
    ensemble_size: int
    write_quorum_size: int
    ack_quorum_size: int


class InvalidOptionError(CallerError, code=102):
    """An option, a configuration value or an address cannot be used."""

    text = "{name}={value!r}: {reason}"
    name: str
    value: object
    reason: str

    def __post_init__(self) -> None:
        """Keep the value as a number or a string: it travels and pickles."""
        if not isinstance(self.value, int | float):
            self.value = str(self.value)
        super().__post_init__()


class ArgumentValueError(InvalidOptionError, ValueError, code=130):
    """An argument of a call cannot have this value; nothing was sent or made."""


class ArgumentTypeError(InvalidOptionError, TypeError, code=131):
    """An argument of a call cannot be of this type; nothing was sent or made."""


class EntryTooLargeError(CallerError, code=103):
    """The payload is larger than the limit. Sizes in bytes."""

    text = "an entry of {size} bytes is over the limit of {size_max} bytes"
    size: int
    size_max: int


class UnauthorizedError(CallerError, code=104):
    """The ledger has another password."""

    text = "wrong password for ledger {ledger_id}"
    ledger_id: int


class AccessDeniedError(UnauthorizedError, code=142, outcome="unknown"):
    """The principal with this key lacks a right in the ledger: this bookie did nothing.

    Another one may have done it before the right was taken away.
    """

    text = (
        "{principal} has no right to {right} in ledger {ledger_id}: its owner or an operator "
        "grants it with `zbk ledger grant {ledger_id} {principal} {right}`"
    )
    principal: str
    right: str


class RoleRequiredError(CallerError, code=143):
    """The principal with this key lacks a role in the cluster. Nothing was done."""

    text = (
        "{principal} may not {operation}: that needs the role {role}, which an operator grants "
        "with `zbk principal grant {principal} {role}`"
    )
    principal: str
    operation: str
    role: str


class NoSuchLedgerError(CallerError, code=105):
    """The metadata store, or a bookie, has no such ledger."""

    text = "no ledger {ledger_id}"
    ledger_id: int


class NoSuchEntryError(CallerError, code=106):
    """The index has no such entry. Never raised for an entry that is damaged or unreadable."""

    text = "ledger {ledger_id} has no entry {entry_id}"
    ledger_id: int
    entry_id: int


class LedgerExistsError(CallerError, code=107):
    """The ledger id is taken."""

    text = "ledger {ledger_id} exists"
    ledger_id: int


class LedgerClosedError(CallerError, code=108):
    """The ledger is closed."""

    ledger_id: int
    last_entry_id: int | None = None

    def __str__(self) -> str:
        end = "" if self.last_entry_id is None else f" at entry {self.last_entry_id}"
        return f"ledger {self.ledger_id} is closed{end}"


class ReadBeyondLacError(CallerError, code=109):
    """A confirmed read asked for entries after the LAC."""

    text = (
        "ledger {ledger_id}: entry {last_entry_id} is after the last add confirmed ({lac}); "
        "read_last_add_confirmed() refreshes it, read_unconfirmed() reads on without a promise"
    )
    ledger_id: int
    last_entry_id: int
    lac: int


class ClientClosedError(CallerError, code=110):
    """The client, or the client that the object belongs to, was closed."""

    text = "the client is closed"


class ForkedProcessError(CallerError, code=111):
    """A client made before ``fork()`` was used in the child. Connect again in the child."""

    text = (
        "this client belongs to process {owner_pid} and cannot be used in its forked "
        "child {pid}: call zbk.connect() in the child"
    )
    owner_pid: int
    pid: int


class UnsupportedLedgerError(CallerError, code=112):
    """The ledger's type does not allow this, or is another one at the bookie."""

    text = "{reason}"
    reason: str


class MissingDependencyError(CallerError, code=113):
    """A required program or package is not installed. ``cure`` says how to get it."""

    text = "{what}: {cure}"
    what: str
    cure: str


class NoSuchLogError(CallerError, code=114):
    """The metadata store has no log of this name."""

    text = "no log {name!r}"
    name: str


class LogClosedError(CallerError, code=115):
    """This handle of a log was closed."""

    text = "this handle of log {name!r} is closed"
    name: str


class LogTruncatedError(CallerError, code=116):
    """The position was cut off the log. ``position`` and ``first`` are ``LEDGER:ENTRY``."""

    text = "log {name!r} was truncated: {position} is gone, it begins at {first}"
    name: str
    position: str
    first: str


class ReaderClosedError(CallerError, code=117):
    """This handle of a reader was closed. The ledger is unchanged."""

    text = "this reader of ledger {ledger_id} is closed: open the ledger again"
    ledger_id: int


class NoSuchDataSetError(CallerError, code=120):
    """The metadata store has no data set of this name."""

    text = "no data set {name!r}: `zbk dataset ls` lists the data sets"
    name: str


class NoSuchVersionError(CallerError, code=121):
    """A data set has no such version. ``version`` 0 is the last one of a data set without any."""

    name: str
    version: int
    last_version: int

    def __str__(self) -> str:
        if not self.last_version:
            return f"data set {self.name!r} has no version yet: no load was committed"
        return (
            f"data set {self.name!r} has no version {self.version}; "
            f"the last one is {self.last_version}"
        )


class LoadAbortedError(CallerError, code=122):
    """A load was aborted, or took longer than its time; nothing of it is visible."""

    text = (
        "load {load_id} of data set {name!r} was aborted, or expired; nothing of it is visible: "
        "run it again"
    )
    name: str
    load_id: str


class DataSetConflictError(CallerError, code=123):
    """A load conflicts with the present state of the data set."""

    text = "data set {name!r}: {reason}"
    name: str
    reason: str


class KeyFileError(CallerError, code=140):
    """A key file cannot be used. Its content is never part of the text."""

    text = "key file {path}: {reason}"
    path: str
    reason: str


class NoSuchPrincipalError(CallerError, code=141):
    """The metadata store has no principal of this name."""

    text = "no principal {name!r}: `zbk principal ls` lists the principals"
    name: str


class NoSuchNamespaceError(CallerError, code=144):
    """The metadata store has no namespace with this path, nor with a part of it."""

    text = "no namespace {path!r}: an operator adds it with `zbk namespace add {path}`"
    path: str


class NamespaceDeniedError(CallerError, code=145):
    """The principal may not create ledgers in the namespace. Nothing was created."""

    text = (
        "{principal} may not create ledgers in namespace {path!r}: an operator grants it with "
        "`zbk namespace grant {path} {principal} append`"
    )
    principal: str
    path: str


class NamespaceFullError(CallerError, code=147):
    """A limit of a namespace is reached: no ledger is created in it until others are deleted."""

    text = (
        "namespace {path!r} has {limit} {what}, as many as it may have: delete ledgers, or ask an "
        "operator for `zbk namespace limit {path}`"
    )
    path: str
    what: str
    limit: int


class PrincipalRequiredError(CallerError, code=146):
    """A new ledger needs an owner, and the key of this client belongs to no principal."""

    text = (
        "no principal has the key {key}, so it cannot own a ledger: an operator admits it with "
        "`zbk principal add NAME --key {key}`"
    )
    key: str


# ------------------------------------------------------------------ fenced


class LedgerFencedError(ZbkError, code=200, outcome="unknown"):
    """Another client took the ledger over. The add may or may not be in the ledger."""

    text = "ledger {ledger_id} was fenced: another client is recovering or has closed it"
    ledger_id: int


class AppendUnansweredError(ZbkError, code=201, outcome="unknown"):
    """The writer ended before an append was answered. It may or may not be in the ledger."""

    text = "the writer of ledger {ledger_id} ended before the append was answered: {reason}"
    ledger_id: int
    reason: str


class LogFencedError(ZbkError, code=202, outcome="unknown"):
    """Another client took the log over. The append may or may not be in it."""

    text = "log {name!r} was taken over by another client"
    name: str


# ------------------------------------------------------------------ no answer


class UnavailableError(ZbkError, code=300, is_retriable=True, outcome="unknown"):
    """No answer came, or not in time."""

    text = "{reason}"

    def __init__(self, reason: str) -> None:  # no field: subclasses put others first
        super().__init__(reason)
        self.reason = reason


class MetadataUnavailableError(UnavailableError, code=301):
    """The metadata store did not answer, or its session is gone."""

    text = "metadata store {address}: {reason}"
    address: str
    reason: str


class MetadataAccessError(MetadataUnavailableError, code=324, is_retriable=False, outcome="failed"):
    """The metadata store refuses this process. Nothing was done; ``reason`` has the cure."""


class BookieUnavailableError(UnavailableError, code=302):
    """A bookie could not be reached, or its connection was lost."""

    text = "bookie {bookie_id}: {reason}"
    bookie_id: str
    reason: str


class SecurityMismatchError(BookieUnavailableError, code=322, outcome="failed"):
    """Client and bookie do not agree on encryption. Nothing was sent; ``reason`` has the cure."""


class KeyRefusedError(BookieUnavailableError, code=323, outcome="failed"):
    """The bookie knows no principal with the client's key. Nothing was sent."""


class NotEnoughBookiesError(UnavailableError, code=303):
    """Fewer bookies than needed are there, or the ack quorum can no longer be reached."""

    text = "need {needed_count} bookies, have {available_count}: {reason}"
    needed_count: int
    available_count: int
    reason: str


class OldBookiesError(UnavailableError, code=325, outcome="failed"):
    """Bookies of an older zbk do not know ledgers of this kind, and there are too few others."""

    text = (
        "need {needed_count} bookies that know {needs}, have {able_count}: upgrade {bookie_ids}, "
        "which `zbk bookie ls` shows with their versions, or create a ledger of another type"
    )
    needed_count: int
    able_count: int
    needs: str
    bookie_ids: str


class RequestTimeoutError(UnavailableError, code=304):
    """No answer within the time given, in seconds. The request may still be carried out."""

    text = "{what}: no answer within {timeout_s:g} s"
    what: str
    timeout_s: float


class BusyError(UnavailableError, code=305, outcome="failed"):
    """A named limit was reached; slow down and try again."""

    reason: str


class TooManyOpenFilesError(UnavailableError, code=321, outcome="failed"):
    """This process has as many files and connections open as it may have."""

    text = (
        "{what}: this process has too many files open; raise `ulimit -n`, or close clients and "
        "files that are not needed"
    )
    what: str


class BookieReadOnlyError(UnavailableError, code=306, outcome="failed"):
    """The bookie accepts no new entries at present."""

    text = "bookie {bookie_id} is read-only"
    bookie_id: str


class CannotAdvanceError(UnavailableError, code=307):
    """``sync()`` has asked every bookie that answers, and the LAC cannot reach the wanted entry.

    ``last_durable_id`` is the last entry id that is known to be durable on an ack quorum; -1 is
    none. ``wanted_id`` is None where the durable end is not known.
    """

    ledger_id: int
    last_durable_id: int
    wanted_id: int | None
    reason: str

    def __str__(self) -> str:
        if self.wanted_id is not None:
            durable = f"durable up to entry {self.last_durable_id}, not {self.wanted_id}"
        elif self.last_durable_id < 0:
            durable = "too few bookies answer to know how far it is durable"
        else:
            durable = (
                "too few bookies answer to know how far it is durable beyond entry "
                f"{self.last_durable_id}"
            )
        return f"ledger {self.ledger_id}: {durable}: {self.reason}"


class LedgerRecoveryError(UnavailableError, code=308):
    """A ledger's end cannot be known now. It stays IN_RECOVERY; recover it again later."""

    text = "ledger {ledger_id} cannot be recovered now: {reason}"
    ledger_id: int
    reason: str


class BookieInUseError(UnavailableError, code=309):
    """A bookie cannot be taken out of service yet."""

    text = "bookie {bookie_id} stays in service: {reason}"
    bookie_id: str
    reason: str


# ------------------------------------------------------------------ metadata conflicts


class MetadataConflictError(ZbkError, code=400):
    """A compare-and-swap lost, or a node is not as expected."""

    path: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason or type(self).__name__}"


class BadVersionError(MetadataConflictError, code=401):
    """The node has another version: another client changed it first."""


class NodeExistsError(MetadataConflictError, code=402):
    """The node exists."""


class NoNodeError(MetadataConflictError, code=403):
    """The node does not exist: an explicit answer of the store."""


class NotEmptyError(MetadataConflictError, code=404):
    """The node has children."""


class IllegalTransitionError(MetadataConflictError, code=405):
    """The ledger's metadata may not change in this way."""


class NotDurableError(ZbkError, code=410, is_retriable=True):
    """``close()`` of a VD ledger: its end is not durable, or not known. The ledger stays open.

    Either acknowledged entries are not durable; a later close may find that they are. Or
    ``last_sent_id`` is above ``last_acked_id``: after a failed append, other clients may have
    synced and read entries that were never acknowledged to this writer. Only a recovery finds the
    end then.

    ``last_durable_id`` is the last entry id that is durable on an ack quorum, -1 is none;
    ``last_acked_id`` is the last one acknowledged; ``last_sent_id`` is the last one sent to
    bookies, at least ``last_acked_id``.
    """

    ledger_id: int
    last_durable_id: int
    last_acked_id: int
    reason: str = ""
    last_sent_id: int = -1

    def __post_init__(self) -> None:
        """Raise the last sent id to the last acknowledged one."""
        super().__post_init__()
        self.last_sent_id = max(self.last_acked_id, self.last_sent_id)

    def __str__(self) -> str:
        cause = f" ({self.reason})" if self.reason else ""
        recover = f"run `zbk ledger recover {self.ledger_id}`"
        stays = (
            f"ledger {self.ledger_id} stays open: entries up to {self.last_acked_id} are "
            f"acknowledged, and durable on an ack quorum up to {self.last_durable_id}{cause}. "
        )
        if self.last_sent_id > self.last_acked_id:
            return (
                f"{stays}Entries up to {self.last_sent_id} were sent, and other clients may have "
                "synced them, so this writer cannot decide where the ledger ends. After this "
                f"writer has exited, {recover}"
            )
        return (
            f"{stays}Nothing is dropped: close it again when its bookies are back, or, after its "
            f"writer has exited, {recover}"
        )


# ------------------------------------------------------------------ damage


class DamageError(ZbkError, code=500):
    """Bytes on disk or on the wire fail their check."""

    text = "{reason}"

    def __init__(self, reason: str) -> None:  # no field: subclasses put others first
        super().__init__(reason)
        self.reason = reason


class CorruptRecordError(DamageError, code=501):
    """A record's length, ids or checksum are wrong.

    ``where`` names file or message, ``offset`` is the byte in it, ``reason`` does not name it.
    """

    text = "{where} at byte {offset}: {reason}"
    where: str
    offset: int
    reason: str


class ShortRecordError(CorruptRecordError, code=502):
    """The bytes end inside the record."""


class DigestMismatchError(DamageError, code=503):
    """An entry's digest does not match its bytes."""

    text = "ledger {ledger_id} entry {entry_id}: the digest does not match"
    ledger_id: int
    entry_id: int


class CorruptJournalError(DamageError, code=504):
    """A journal is damaged where records were promised: this is no torn tail."""

    text = (
        "journal {path} is damaged at byte {offset} ({reason}): refusing to start. Acknowledged "
        "entries may be in the damaged part. Inspect it with `zbk inspect journal {path}`; "
        "re-replicate this bookie's ledgers from its peers before you remove anything"
    )
    path: str
    offset: int
    reason: str


class EntryUnreadableError(DamageError, code=505):
    """The bookie holds the entry and cannot read it. Not a "no"."""

    text = "ledger {ledger_id} entry {entry_id} is unreadable: {reason}"
    ledger_id: int
    entry_id: int
    reason: str


# ------------------------------------------------------------------ wire


class WireError(ZbkError, code=600):
    """The peer does not speak zbk's protocol."""

    text = "{reason}"
    reason: str


class MalformedMessageError(WireError, code=601):
    """A message cannot be decoded."""


class UnsupportedVersionError(WireError, code=602):
    """The protocol versions of the two peers do not overlap."""


class UnknownOperationError(WireError, code=603):
    """The peer requests an operation that does not exist here."""


class WrongBookieError(WireError, code=604, is_retriable=True):
    """The request was meant for another instance, bookie or incarnation."""


class HelloRequiredError(WireError, code=605, is_retriable=True):
    """The bookie does not know this connection, or no longer: send HELLO first."""


# ------------------------------------------------------------------ bookie


class BookieError(ZbkError, code=700, outcome="unknown"):
    """A bookie cannot start or continue."""

    text = "{reason}"

    def __init__(self, reason: str) -> None:  # no field: subclasses put others first
        super().__init__(reason)
        self.reason = reason


class StorageFailedError(BookieError, code=701):
    """A write or an fsync failed. The bookie stops: a failed fsync is never retried."""

    text = "{operation} of {path} failed: {reason}"
    path: str
    operation: str
    reason: str


class NoSpaceError(StorageFailedError, code=709, is_retriable=True):
    """A write found no space. None of it was promised; the bookie continues, read-only."""


class OutOfDescriptorsError(NoSpaceError, code=722):
    """A file was not opened: too many are open. Nothing was lost, and it may be opened later."""

    text = (
        "{operation} of {path} failed: {reason}: too many files and connections are open; "
        "raise `ulimit -n`, or lower connection_count_max or open_files_max"
    )


class MemoryExhaustedError(BookieError, code=723):
    """The bookie has used the memory that it may have. It stops; its promises are kept."""

    size_max: int

    def __str__(self) -> str:
        limited = (
            f"memory_max of {self.size_max} bytes" if self.size_max else "memory of this machine"
        )
        return (
            f"the {limited} is used up: start the bookie again; if this recurs, look for many "
            "clients or large entries (`zbk bookie show`), or raise the limit"
        )


class TooFewDescriptorsError(BookieError, code=721, outcome="failed"):
    """The process may open too few descriptors for the bookie's configuration."""

    text = (
        "the process may have {limit} file descriptors, and this bookie needs about {needed}: "
        "start it after `ulimit -n {needed}`, or with fewer directories"
    )
    limit: int
    needed: int


class InsecureBookieError(BookieError, code=724, outcome="failed"):
    """The bookie would listen to other machines without keys, so it does not start."""

    text = (
        "a bookie without a key does not listen on {listen}: anyone who reaches that port can "
        "write, fence and read its ledgers. Give it a key (`zbk key generate`, then --key), listen "
        "on loopback, or accept the risk with --insecure"
    )
    listen: str


class CookieMismatchError(BookieError, code=702, outcome="failed"):
    """A directory or the metadata names another bookie."""

    reason: str


class LostHistoryError(BookieError, code=710, outcome="failed"):
    """The cluster knows that the bookie has served; its directories do not show it.

    ``known`` is the cluster's record, ``missing`` the part that the directories lack, ``cure`` the
    remedy.
    """

    text = (
        "bookie {bookie_id} has lost its history: the cluster knows {known}, but {missing}. "
        "A disk is not mounted, was wiped or restored from an older copy, or only the cookie was "
        "copied. The bookie would deny entries that it has acknowledged, so it does not start: "
        "{cure}"
    )
    bookie_id: str
    known: str
    missing: str
    cure: str


class DirectoryInUseError(BookieError, code=703, outcome="failed"):
    """Another bookie process holds the directory."""

    reason: str


class ScatteredLedgerError(BookieError, code=711):
    """A ledger has entries in too many places far from each other at this bookie."""

    text = (
        "entry {entry_id} of ledger {ledger_id} is refused: this bookie keeps runs of the ledger's "
        "entries in up to {count_max} places far from each other, and has as many. Writers and "
        "repairs never reach this limit; check for a client that invents entry ids"
    )
    ledger_id: int
    entry_id: int
    count_max: int


class DuplicateEntryError(BookieError, code=704, outcome="failed"):
    """The entry id is stored already, with other bytes."""

    text = "ledger {ledger_id} entry {entry_id} is stored already, with other bytes"
    ledger_id: int
    entry_id: int


class UnknownLedgerStateError(BookieError, code=705, is_retriable=True):
    """The bookie may have lost parts of this ledger: neither yes nor no."""

    text = (
        "bookie {bookie_id} may have lost parts of ledger {ledger_id}, and says neither yes nor no "
        "until it has checked it against its peers: try again, or see "
        "`zbk bookie show {bookie_id}`"
    )
    ledger_id: int
    bookie_id: str


def _tree(root: type[ZbkError]) -> dict[int, type[ZbkError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        below = _tree(child)
        assert not found.keys() & below.keys(), f"error code reused below {child.__name__}"
        found |= below
    return found


ERROR_BY_CODE: dict[int, type[ZbkError]] = _tree(ZbkError)


def from_wire(code: int, fields: tuple[Any, ...]) -> ZbkError:
    """Return the error that a peer sent; an unknown code becomes a plain ``BookieError``.

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
EXIT_UNHEALTHY: Final = 10
"""Of reports about the health of a cluster or a machine: they found a problem. No error has it."""

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
