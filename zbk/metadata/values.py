"""The values in the nodes of the metadata store, and their bytes.

A value is one msgpack map: the fields of its struct by name, then ``checksum``, always last::

    {"format_version": int, <field>: <value>, ..., "write_token": str?, "checksum": u64}

    checksum     XXH3-64 of every byte before its own nine (0xcf and eight bytes, big-endian):
                 SQLite checks nothing, and a flipped bit in a last entry id loses data
    write_token  names one attempt to write this node. After a lost reply the client reads it back:
                 its own token there means that this very attempt was applied

Version rule: a reader ignores keys that it does not know, so a field may be added without a new
version. A change that an old reader must not overlook needs a new ``format_version``: old readers
then refuse the value with ``UnsupportedVersionError``.

Limits: a value, all in all, ``VALUE_SIZE_MAX`` bytes; the decoder is bounded before it allocates.
That is why values use ``msgpack``: ``msgspec.msgpack`` has no limits on the sizes of untyped maps,
which a reader needs for unknown keys and newer versions.

Pure functions; any thread.
"""

from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar

import msgpack
import msgspec

from zbk.conversion import convert
from zbk.errors import CorruptRecordError, InvalidOptionError, UnsupportedVersionError, ZbkError
from zbk.metadata.stores.arguments import VALUE_SIZE_MAX
from zbk.protocol.entry.digest import checksum
from zbk.protocol.ledger.formats import METADATA_FORMAT_VERSION
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.security.credentials import BookieDoors
from zbk.security.namespaces import Namespace
from zbk.security.principals import Principal

VALUE_FORMAT_VERSION: Final = 1
"""The format version of all values that are defined here; the others have their own."""

_ARRAY_COUNT_MAX = 65_536
_MAP_COUNT_MAX = 4_096
_CHECKSUM_KEY = msgpack.packb("checksum")
_CHECKSUM_SIZE = 9  # 0xcf and eight bytes


class LedgerLayout(StrEnum):
    """How ledger ids become paths.

    Decision: hierarchical is the default. BookKeeper's documentation recommends flat below 50,000
    ledgers, but the layout of a cluster never changes, and the number of its ledgers is not known
    at its beginning. A listing of a flat layout is one answer with every name, some 15 bytes each,
    and every garbage collection of a bookie and every audit asks for it. A hierarchical layout is
    read in pieces of at most 10,000 names, one request each. It is the default of BookKeeper's
    code, too.
    """

    HIERARCHICAL = "hierarchical"
    FLAT = "flat"


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """``/LAYOUT``: chosen once, when the cluster is initialised."""

    ledger_layout: LedgerLayout = LedgerLayout.HIERARCHICAL
    format_version: int = VALUE_FORMAT_VERSION


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """``/INSTANCEID``: identifies this cluster."""

    instance_id: str
    format_version: int = VALUE_FORMAT_VERSION


class IdCounter(msgspec.Struct, frozen=True, kw_only=True):
    """``/idgen``: every ledger id below ``next_ledger_id`` was assigned, once.

    The deletion of the last ledger writes ``is_emptied``, in one step that fails while there is any
    ledger. A create writes the counter without it, as does a zbk that does not know the field.
    """

    next_ledger_id: int = 0
    is_emptied: bool | msgspec.UnsetType = msgspec.UNSET
    format_version: int = VALUE_FORMAT_VERSION


class Cookie(msgspec.Struct, frozen=True, kw_only=True):
    """``/cookies/<bookie id>``: the identity of a bookie, and its directories."""

    bookie_id: str
    instance_id: str
    journal_dirs: tuple[str, ...]
    ledger_dirs: tuple[str, ...]
    created_ms: int  # wall clock, for people
    format_version: int = VALUE_FORMAT_VERSION


class StoredCookie(Cookie, frozen=True, kw_only=True):
    """The value of ``/cookies/<bookie id>``: the cookie and the bookie's history.

    The directories have the cookie alone. A value of an older zbk reads as 0 and False.
    """

    incarnation: int = 0  # the highest with which the bookie was admitted; never lowered
    has_served: bool = False  # its directories show that it has served; False after a wipe
    is_readonly: bool | msgspec.UnsetType = msgspec.UNSET  # True: an operator switched it so
    public_key: str | msgspec.UnsetType = msgspec.UNSET  # with which the bookie started last


class BookieRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """``/available/<bookie id>``: the address of a running bookie, while its session lives."""

    bookie_id: str
    address: str  # tcp://host:port
    incarnation: int  # grows at each start of the bookie
    is_readonly: bool
    started_ms: int  # wall clock, for people
    version: str  # of zbk
    rack: str = ""
    http: str | msgspec.UnsetType = msgspec.UNSET  # URL of its metrics and health
    public_key: str | msgspec.UnsetType = msgspec.UNSET  # ``address`` is encrypted, unless
    secure_address: str | msgspec.UnsetType = msgspec.UNSET  # this one is, beside a plain one
    is_insecure: bool | msgspec.UnsetType = msgspec.UNSET  # no key, and open to other machines
    features: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET  # an older zbk has none
    format_version: int = VALUE_FORMAT_VERSION

    @property
    def security(self) -> str:
        """``off``, ``allowed`` or ``required``; ``insecure``: off, and open to other machines."""
        if not self.public_key:
            return "insecure" if self.is_insecure else "off"
        return "allowed" if self.secure_address else "required"


def doors_of(found: BookieRegistration) -> BookieDoors:
    """Return the ways to connect to a registered bookie."""
    return BookieDoors(found.address, found.public_key or "", found.secure_address or "")


class Principals(msgspec.Struct, frozen=True, kw_only=True):
    """``/principals``: all principals of the cluster, by name."""

    principals: tuple[Principal, ...] = ()
    format_version: int = VALUE_FORMAT_VERSION


class Namespaces(msgspec.Struct, frozen=True, kw_only=True):
    """``/namespaces``: all namespaces of the cluster, by path."""

    namespaces: tuple[Namespace, ...] = ()
    format_version: int = VALUE_FORMAT_VERSION


class NamespaceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """``/namespaces/<path>``: limits of a namespace, and what its ledgers use of them."""

    first_ledger_id: int  # ledgers with lower ids are not counted
    ledger_count_max: int = 0  # 0: no limit
    size_max: int = 0  # bytes of payload; 0: no limit
    ledger_count: int = 0
    size: int = 0  # of closed ledgers
    format_version: int = VALUE_FORMAT_VERSION


class LogHead(msgspec.Struct, frozen=True, kw_only=True):
    """``/logs/<name>``: the id of the log that has this name now."""

    log_id: str
    format_version: int = VALUE_FORMAT_VERSION


class DataSetHead(msgspec.Struct, frozen=True, kw_only=True):
    """``/datasets/<name>``: the id of the data set that has this name now."""

    data_set_id: str
    format_version: int = VALUE_FORMAT_VERSION


class TaskLock(msgspec.Struct, frozen=True, kw_only=True):
    """``/underreplication/locks/<task>``: the worker on a ledger, while its session lives."""

    owner: str  # the worker, for people
    token: str  # names one attempt to lock
    locked_ms: int  # wall clock, for people
    format_version: int = VALUE_FORMAT_VERSION


class TaskProgress(msgspec.Struct, frozen=True, kw_only=True):
    """``/underreplication/locks/<task>.<token>``: the progress of the owner of the lock."""

    owner: str
    copied_count: int = 0  # entries
    to_copy_count: int = 0  # entries in all, copied ones included; 0: not known yet
    updated_ms: int = 0  # wall clock, for people
    format_version: int = VALUE_FORMAT_VERSION


class AuditCounter(msgspec.Struct, frozen=True, kw_only=True):
    """``/underreplication/trigger``, ``.../news``: a counter that notifies its watchers."""

    count: int = 0
    format_version: int = VALUE_FORMAT_VERSION


class LostBookieDelay(msgspec.Struct, frozen=True, kw_only=True):
    """``/underreplication/lostbookiedelay``: the time that one lost bookie has to come back."""

    delay_ms: int
    format_version: int = VALUE_FORMAT_VERSION


class AuditorVote(msgspec.Struct, frozen=True, kw_only=True):
    """``/underreplication/auditorelection/leader``: the auditor, while its session lives."""

    candidate_id: str  # the process, for people
    token: str  # names one attempt to lead
    elected_ms: int  # wall clock, for people
    format_version: int = VALUE_FORMAT_VERSION


class LastCheck(msgspec.Struct, frozen=True, kw_only=True):
    """``/underreplication/checks/<kind>``: the time when the auditor ended this check."""

    ended_ms: int  # wall clock: intervals of hours and days
    format_version: int = VALUE_FORMAT_VERSION


class AuditorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``/underreplication/auditor``: the present and the last work of the auditor, for people."""

    candidate_id: str
    told_ms: int  # wall clock
    lost: tuple[str, ...] = ()  # bookies that it regards as lost
    pending: tuple[str, ...] = ()  # those whose ledgers are not all reported yet
    delay_ends_ms: int | msgspec.UnsetType = msgspec.UNSET  # wall clock; then it is lost
    brake: str = ""  # why it waits before it acts; "" if it does not
    doing: str = ""  # the pass under way
    done: str = ""  # the last pass and its result
    done_ms: int = 0
    format_version: int = VALUE_FORMAT_VERSION


ValueT = TypeVar("ValueT", bound=msgspec.Struct)
"""A struct with the field ``format_version``, whose default is the version that this zbk writes.

Only ledgers have a default below the newest format: older clients read what does not need it.
"""


@cache
def _format_version(value_type: type[msgspec.Struct]) -> int:
    if value_type is LedgerMetadata:
        return METADATA_FORMAT_VERSION
    found = {field.name: field.default for field in msgspec.structs.fields(value_type)}
    return int(found["format_version"])


def encode(value: ValueT, *, write_token: str = "") -> bytes:
    """Return the bytes of a node's value.

    Raises:
        InvalidOptionError: a text or a number in it cannot be stored, or it is too large.
    """
    fields: dict[str, Any] = msgspec.to_builtins(value, builtin_types=(bytes,))
    if write_token:
        fields["write_token"] = write_token
    fields["checksum"] = 0xFFFF_FFFF_FFFF_FFFF  # takes nine bytes, as every real one does below
    name = type(value).__name__
    try:
        packed: bytes = msgpack.packb(fields)
    except (ValueError, OverflowError) as error:  # lone surrogates, integers over 64 bits
        raise InvalidOptionError(name, str(value)[:200], str(error)) from error
    if len(packed) > VALUE_SIZE_MAX:
        raise InvalidOptionError(
            name, len(packed), f"takes more than {VALUE_SIZE_MAX} bytes in the metadata store"
        )
    body = packed[:-_CHECKSUM_SIZE]
    data = body + b"\xcf" + checksum(body).to_bytes(8, "big")
    try:
        decode(type(value), data, name)
    except CorruptRecordError as error:  # never write an unreadable value
        raise InvalidOptionError(name, str(value)[:200], str(error)) from error
    return data


def decode(value_type: type[ValueT], data: bytes, path: str) -> ValueT:
    """Return the value in ``data``, which was read from ``path``.

    Raises:
        CorruptRecordError: it is not such a value, or damaged.
        UnsupportedVersionError: a newer zbk wrote it.
    """
    fields = _unpack(data, path)
    version = fields.get("format_version")
    known = _format_version(value_type)
    if isinstance(version, int) and version > known:
        raise UnsupportedVersionError(
            f"{path}: {value_type.__name__} has format version {version}, this zbk knows {known}"
        )
    body = data[:-_CHECKSUM_SIZE]
    if not body.endswith(_CHECKSUM_KEY) or fields.get("checksum") != checksum(body):
        raise CorruptRecordError(path, 0, "the checksum does not match")
    if not isinstance(version, int) or version < 1:
        raise CorruptRecordError(path, 0, f"impossible format version {version!r}")
    try:
        value = convert(fields, value_type, builtin_types=(bytes,))
        if isinstance(value, LedgerMetadata):
            _ = value.quorum  # raises for sizes that no ledger can have
    except (msgspec.ValidationError, ZbkError) as error:
        raise CorruptRecordError(path, 0, f"is not a {value_type.__name__}: {error}") from error
    return value


def _unpack(data: bytes, path: str) -> dict[Any, Any]:
    if len(data) > VALUE_SIZE_MAX:
        raise CorruptRecordError(path, 0, f"{len(data)} bytes are over the limit")
    try:
        fields = msgpack.unpackb(
            data,
            strict_map_key=True,
            max_str_len=VALUE_SIZE_MAX,
            max_bin_len=VALUE_SIZE_MAX,
            max_array_len=_ARRAY_COUNT_MAX,
            max_map_len=_MAP_COUNT_MAX,
            max_ext_len=0,
        )
    except ValueError as error:  # every error of msgpack's decoder is one
        raise CorruptRecordError(path, 0, f"is not a value of zbk: {error}") from error
    if not isinstance(fields, dict):
        raise CorruptRecordError(path, 0, f"is not a value of zbk but a {type(fields).__name__}")
    return fields
