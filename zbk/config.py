"""Configuration: what may be set, its defaults, and where a value comes from.

One TOML file for a process, with the tables of ``SECTIONS``. Precedence: command-line flag, then
``ZBK_...`` in the environment, then the file given with ``--config`` or in ``ZBK_CONFIG``, then the
default. Unknown keys are errors. Sizes may be written ``"64 MiB"`` and
durations ``"2s"`` or ``"500ms"``; plain numbers are bytes and the unit in the option's name.

>>> parse_size("64 MiB"), parse_duration_ms("1.5s")
(67108864, 1500)
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypedDict, TypeVar

import msgspec

from zbk.errors import InvalidOptionError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

ENTRY_SIZE_MAX_DEFAULT = 1 * MIB
ENTRY_SIZE_MAX_LIMIT = 64 * MIB
MESSAGE_OVERHEAD_SIZE = 64 * KIB
"""Room in a message beside its entries: header, sizes of entries."""


MEMORY_MIN = 320 * MIB
"""What a bookie takes at most, beside its index and the requests of one client, about."""

DIRECTORY_COUNT_MAX = 8
"""Journal directories, and ledger directories, of one bookie."""


class FreeLimit(msgspec.Struct, frozen=True):
    """How much of a disk is to be free: bytes, or a share of it."""

    size: int = 0
    percent: float = 0

    def of(self, total_size: int) -> int:
        """Return the bytes that this is of a disk of ``total_size`` bytes."""
        return max(self.size, int(total_size * self.percent / 100))


class BookieConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bookie. TOML table ``[bookie]``, environment ``ZBK_BOOKIE_<KEY>``."""

    metadata: str = ""
    journal_dir: str | tuple[str, ...] = ""  # one path or several; ``:`` between them in a variable
    ledger_dir: str | tuple[str, ...] = ""
    listen: str = "tcp://127.0.0.1:3181"
    advertise: str = ""  # empty: the address it listens on
    rack: str = ""
    entry_size_max: int = ENTRY_SIZE_MAX_DEFAULT  # bytes of payload
    connection_credit_size: int = 64 * MIB  # bytes of requests that one client may have in flight
    connection_count_max: int = 4096  # fewer where ``ulimit -n`` leaves no room for so many
    handshake_ms: int = 5_000  # a connection that has not said HELLO by then is closed
    connection_idle_ms: int = 600_000  # silence after which a client has to say HELLO again
    read_size_max: int = 4 * MIB  # bytes in one read reply
    journal_segment_size: int = 64 * MIB
    journal_unsynced_size_max: int = 64 * MIB  # bytes written ahead of the running fsync
    entry_log_size_max: int = 1 * GIB
    ledger_cache_size: int = 256 * MIB
    open_files_max: int = 512
    memory_max: int = 0  # bytes of memory, about; at more the bookie stops; 0: no limit
    checkpoint_interval_ms: int = 10_000
    checkpoint_journal_size: int = 256 * MIB  # journal bytes that start a checkpoint early
    sync_interval_ms: int = 1_000  # VD: background fsync; 0 is off
    boot_id: str = ""  # another one whenever the page cache may be lost; empty: the machine's own
    limbo_grace_ms: int = 60_000  # how long peers are waited for after an unclean stop
    session_timeout_ms: int = 10_000
    gc_interval_ms: int = 900_000  # between rounds of garbage collection; 0 is off
    gc_confirm_delay_ms: int = 10_000  # between the two looks that prove a ledger deleted
    compaction_minor_threshold: float = 0.2  # live share below which an entry log is taken; 0: off
    compaction_minor_interval_ms: int = 3_600_000  # 0 is off
    compaction_major_threshold: float = 0.8
    compaction_major_interval_ms: int = 86_400_000
    compaction_rate_size: int = 32 * MIB  # bytes a second, read and written; 0: no limit
    scrub_interval_ms: int = 7 * 86_400_000  # between passes that look for damage; 0 is off
    scrub_rate_size: int = 8 * MIB  # bytes a second that a pass reads; 0 is no limit
    disk_warn_free: int | str = "1 GiB"  # free bytes, or a share of the disk such as "10%"
    disk_readonly_free: int | str = "512 MiB"  # below it no new entries are taken
    disk_reserve_size: int = 16 * MIB  # held back in each directory for when its disk is full

    def __post_init__(self) -> None:
        _check_range(self, "entry_size_max", 1, ENTRY_SIZE_MAX_LIMIT)
        parse_free(self.disk_warn_free, "disk_warn_free")
        _check_paths("journal_dir", self.journal_dir)
        _check_paths("ledger_dir", self.ledger_dir)
        parse_free(self.disk_readonly_free, "disk_readonly_free")
        _check_range(self, "disk_reserve_size", 2 * MIB, 1 * GIB)
        _check_range(self, "connection_credit_size", self.entry_size_max * 2, 4 * GIB)
        _check_range(self, "connection_count_max", 1, 1_000_000)
        _check_range(self, "connection_idle_ms", 10, 86_400_000)
        _check_range(self, "handshake_ms", 100, 600_000)
        _check_range(self, "read_size_max", 64 * KIB, 256 * MIB)
        _check_range(self, "journal_segment_size", 1 * MIB, 4 * GIB)
        _check_range(self, "journal_unsynced_size_max", 1 * MIB, 4 * GIB)
        _check_range(self, "entry_log_size_max", 1 * MIB, 4 * GIB)
        _check_range(self, "ledger_cache_size", 64 * KIB, 64 * GIB)
        _check_range(self, "open_files_max", 8, 1_000_000)
        if self.memory_max:  # what the bookie holds on purpose has to fit, twice while it changes
            memory_min = MEMORY_MIN + self.ledger_cache_size + self.connection_credit_size
            _check_range(self, "memory_max", memory_min, 1 << 50)
        _check_range(self, "checkpoint_interval_ms", 10, 3_600_000)
        _check_range(self, "checkpoint_journal_size", 1 * MIB, 64 * GIB)
        _check_range(self, "sync_interval_ms", 0, 3_600_000)
        _check_range(self, "limbo_grace_ms", 0, 86_400_000)
        _check_range(self, "session_timeout_ms", 1_000, 600_000)
        _check_range(self, "gc_interval_ms", 0, 7 * 86_400_000)
        _check_range(self, "gc_confirm_delay_ms", 10, 3_600_000)
        _check_range(self, "scrub_interval_ms", 0, 365 * 86_400_000)
        _check_range(self, "scrub_rate_size", 0, 64 * GIB)
        for kind in ("minor", "major"):
            _check_share(self, f"compaction_{kind}_threshold")
            _check_range(self, f"compaction_{kind}_interval_ms", 0, 366 * 86_400_000)
        _check_range(self, "compaction_rate_size", 0, 1024 * GIB)

    @property
    def journal_dirs(self) -> tuple[str, ...]:
        """The journal directories, in the order that counts; none if none is given."""
        return _paths(self.journal_dir)

    @property
    def ledger_dirs(self) -> tuple[str, ...]:
        """The ledger directories, in the order that counts; none if none is given."""
        return _paths(self.ledger_dir)


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One client. Keywords of ``zbk.connect``; TOML table ``[client]``."""

    entry_size_max: int = ENTRY_SIZE_MAX_DEFAULT  # bytes of payload
    pending_size_max: int = 64 * MIB  # bytes of entries that may wait in one writer
    all_pending_size_max: int = 128 * MIB  # ... in all writers of the client together
    writer_actor_count: int = 4  # actors, and threads, that serve all writers of the client
    window_size: int = 8 * MIB  # bytes of one writer that are on their way to the ack quorum
    backlog_size: int = 96 * MIB  # ... to the slowest bookie, before it holds the writer up
    batch_size_max: int = 1 * MIB  # bytes of entries in one message
    batch_count_max: int = 8192  # entries in one message
    read_ahead_count: int = 4  # read requests in flight for one reader
    read_size_max: int = 1 * MIB  # bytes asked for in one read request
    speculative_read_ms: int = 200  # silence after which the next replica is asked too; 0 is off
    request_timeout_ms: int = 5_000
    connect_timeout_ms: int = 5_000
    quorum_grace_ms: int = 5_000  # how long bookies that are needed may take to come back
    slow_bookie_ms: int = 2_000  # a bookie that alone holds up a writer so long is replaced
    connection_idle_ms: int = 60_000  # a connection that nobody uses is closed after this
    explicit_lac_ms: int = 2  # an idle writer tells its LAC after this; 0 is never
    placement: Literal["random", "rack"] = "random"  # how bookies are chosen
    avoid_failed_ms: int = 60_000  # how long a bookie that failed is chosen last
    default_timeout_ms: int = 60_000  # of blocking calls without ``timeout=``
    session_timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        _check_range(self, "entry_size_max", 1, ENTRY_SIZE_MAX_LIMIT)
        _check_range(self, "pending_size_max", 64 * KIB, 16 * GIB)
        _check_range(self, "all_pending_size_max", 64 * KIB, 64 * GIB)
        _check_range(self, "writer_actor_count", 1, 64)
        _check_range(self, "window_size", 64 * KIB, 1 * GIB)
        _check_range(self, "backlog_size", 64 * KIB, 1 * GIB)
        _check_range(self, "batch_size_max", 4 * KIB, 4 * MIB)
        _check_range(self, "batch_count_max", 1, 65_536)
        _check_range(self, "read_ahead_count", 1, 256)
        _check_range(self, "read_size_max", 4 * KIB, 64 * MIB)
        _check_range(self, "speculative_read_ms", 0, 3_600_000)
        _check_range(self, "request_timeout_ms", 10, 3_600_000)
        _check_range(self, "connect_timeout_ms", 10, 3_600_000)
        _check_range(self, "quorum_grace_ms", 0, 3_600_000)
        _check_range(self, "slow_bookie_ms", 100, 3_600_000)
        _check_range(self, "connection_idle_ms", 10, 86_400_000)
        _check_range(self, "explicit_lac_ms", 0, 3_600_000)
        _check_range(self, "avoid_failed_ms", 0, 86_400_000)
        _check_range(self, "default_timeout_ms", 10, 86_400_000)
        _check_range(self, "session_timeout_ms", 1_000, 600_000)


class ClientOptions(TypedDict, total=False):
    """The keywords of ``zbk.connect``: the fields of ``ClientConfig``, for type checkers.

    Sizes may be texts like ``"1 MiB"``, and durations texts like ``"2s"``.
    """

    entry_size_max: int | str
    pending_size_max: int | str
    all_pending_size_max: int | str
    writer_actor_count: int
    window_size: int | str
    backlog_size: int | str
    batch_size_max: int | str
    batch_count_max: int
    read_ahead_count: int
    read_size_max: int | str
    speculative_read_ms: int | str
    request_timeout_ms: int | str
    connect_timeout_ms: int | str
    quorum_grace_ms: int | str
    slow_bookie_ms: int | str
    connection_idle_ms: int | str
    explicit_lac_ms: int | str
    placement: Literal["random", "rack"]
    avoid_failed_ms: int | str
    default_timeout_ms: int | str
    session_timeout_ms: int | str


class AutorecoveryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The auditor and the replication workers. TOML table ``[autorecovery]``."""

    metadata: str = ""
    session_timeout_ms: int = 10_000  # after so long others take over what a dead process was at
    lost_bookie_delay_ms: int = 300_000  # for one lost bookie; the metadata store may say another
    brake_share_percent: int = 20  # of the bookies: if more vanish at once, look again first
    brake_window_ms: int = 60_000  # within which they count as at once
    brake_hold_ms: int = 15_000  # how long to wait before looking again, and in a new session
    bookie_check_interval_ms: int = 86_400_000  # all ledgers' metadata, for lost bookies; 0 is off
    ledger_check_interval_ms: int = 7 * 86_400_000  # replicas, by reading entries; 0 is off
    ledger_check_full: bool = False  # read every entry, not the first and last of each fragment
    placement_check_interval_ms: int = 0  # replicas on one rack, counted; 0 is off
    replicas_check_interval_ms: int = 86_400_000  # what bookies say they hold: holes; 0 is off
    worker_count: int = 2  # ledgers that are repaired at the same time
    open_ledger_grace_ms: int = 30_000  # how long a writer may take before its ledger is fenced
    replication_rate_size: int = 16 * MIB  # bytes a second that the workers copy; 0: no limit
    repair_retry_ms_max: int = 300_000  # pause between attempts at one ledger; begins at 1/16
    target_policy: Literal["placement", "local"] = "placement"  # who gets what is copied
    local_bookie_id: str = ""  # the bookie that "local" fills

    def __post_init__(self) -> None:
        _check_range(self, "session_timeout_ms", 1_000, 600_000)
        _check_range(self, "lost_bookie_delay_ms", 0, 7 * 86_400_000)
        _check_range(self, "brake_share_percent", 1, 100)
        _check_range(self, "brake_window_ms", 0, 3_600_000)
        _check_range(self, "brake_hold_ms", 0, 3_600_000)
        _check_range(self, "bookie_check_interval_ms", 0, 366 * 86_400_000)
        _check_range(self, "ledger_check_interval_ms", 0, 366 * 86_400_000)
        _check_range(self, "placement_check_interval_ms", 0, 366 * 86_400_000)
        _check_range(self, "replicas_check_interval_ms", 0, 366 * 86_400_000)
        _check_range(self, "worker_count", 1, 64)
        _check_range(self, "open_ledger_grace_ms", 0, 86_400_000)
        _check_range(self, "replication_rate_size", 0, 64 * GIB)
        _check_range(self, "repair_retry_ms_max", 16, 86_400_000)
        if self.target_policy == "local" and not self.local_bookie_id:
            raise InvalidOptionError("local_bookie_id", "", 'target_policy = "local" needs one')


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server process logs. TOML table ``[log]``, environment ``ZBK_LOG_<KEY>``."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


Config = BookieConfig | ClientConfig | AutorecoveryConfig | LogConfig
ConfigType = type[Config]
HIDDEN: Final = "..."
"""In place of the value of an option that is not known: it may be a password."""

ConfigT = TypeVar("ConfigT", bound=Config)

SECTIONS: dict[str, ConfigType] = {
    "bookie": BookieConfig,
    "client": ClientConfig,
    "autorecovery": AutorecoveryConfig,
    "log": LogConfig,
}
"""The tables of a configuration file."""

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(|B|KiB|MiB|GiB|KB|MB|GB)\s*")
_SIZE_UNITS = {
    "": 1, "B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB,
    "KB": 1000, "MB": 1000**2, "GB": 1000**3,
}  # fmt: skip
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_PERCENT_MAX = 99
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|)\s*")
_DURATION_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}


def parse_size(text: str, name: str = "size") -> int:
    """Return the bytes that ``text`` says: ``"512"``, ``"64 KiB"``, ``"1.5 MB"``.

    Raises:
        InvalidOptionError: it says no size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidOptionError(name, text, 'give bytes, or a size such as "64 MiB"')
    return int(float(match[1]) * _SIZE_UNITS[match[2]])


def parse_free(value: int | str, name: str = "free") -> FreeLimit:
    """Return the limit that a value says: ``"5%"``, ``"2 GiB"``, or a number of bytes.

    Raises:
        InvalidOptionError: it says neither, or a share of over 99 %.
    """
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
        if float(match[1]) > _PERCENT_MAX:
            raise InvalidOptionError(name, value, f"must be {_PERCENT_MAX}% or less")
        return FreeLimit(percent=float(match[1]))
    size = parse_size(value, name) if isinstance(value, str) else value
    if size < 0:
        raise InvalidOptionError(name, value, "must be 0 or more")
    return FreeLimit(size=size)


def parse_duration_ms(text: str, name: str = "duration") -> int:
    """Return the milliseconds that ``text`` says: ``"250"``, ``"250ms"``, ``"2s"``, ``"1min"``.

    Raises:
        InvalidOptionError: it says no duration.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidOptionError(name, text, 'give milliseconds, or a duration such as "2s"')
    return int(float(match[1]) * _DURATION_UNITS_MS[match[2]])


def read_toml(path: str, text: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a configuration file whose content is ``text``.

    Raises:
        InvalidOptionError: not TOML, or something outside of a known table.
    """
    tables = parse_toml(path, text)
    for error in unknown_tables(path, tables):
        raise error
    return tables


def parse_toml(path: str, text: str) -> dict[str, Any]:
    """Return what is in a configuration file whose content is ``text``.

    Raises:
        InvalidOptionError: not TOML.
    """
    import tomllib  # noqa: PLC0415 - a client without a file does not need it

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOptionError("config", path, f"is not TOML: {error}") from error
    return tables


def unknown_tables(path: str, tables: Mapping[str, Any]) -> Iterator[InvalidOptionError]:
    """Yield an error for each table that there is not, and each key outside of a table."""
    for name, table in tables.items():
        if name not in SECTIONS or not isinstance(table, dict):
            close = difflib.get_close_matches(name, SECTIONS, n=1)
            meant = f"; did you mean [{close[0]}]?" if close else ""
            known = ", ".join(f"[{one}]" for one in SECTIONS)
            yield InvalidOptionError(
                "config", path, f"unknown table or key {name!r}{meant}; known: {known}"
            )


def build(
    config_type: type[ConfigT],
    *,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    table: Mapping[str, Any],
) -> ConfigT:
    """Merge the sources of one configuration, first wins: flags, environment, table, defaults.

    Flags that are ``None`` were not given.

    Raises:
        InvalidOptionError: an unknown key, or a value out of its range.
    """
    given = given_values(config_type, environment=environment, table=table)
    return convert(config_type, given | {k: v for k, v in flags.items() if v is not None})


def given_values(
    config_type: type[ConfigT], *, environment: Mapping[str, str], table: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what environment and table say, the environment first; not converted yet.

    Raises:
        InvalidOptionError: an unknown key in the table.
    """
    known = config_type.__struct_fields__
    for key in table:
        if key not in known:
            raise InvalidOptionError(key, HIDDEN, f"unknown option{_suggestion(key, known)}")
    names = {key: variable_of(config_type, key) for key in known}
    told = {k: environment[name] for k, name in names.items() if name in environment}
    return dict(table) | {key: _from_variable(key, value) for key, value in told.items()}


def variable_of(config_type: type[ConfigT], key: str) -> str:
    """Return the name in the environment of an option.

    >>> variable_of(LogConfig, "level")
    'ZBK_LOG_LEVEL'
    """
    section = next(name for name, one in SECTIONS.items() if one is config_type)
    return f"ZBK_{section}_{key}".upper()


def convert(config_type: type[ConfigT], values: Mapping[str, Any]) -> ConfigT:
    """Type and check option values; texts become sizes and durations where a number is due.

    Raises:
        InvalidOptionError: an unknown key, a wrong type, or a value out of its range.
    """
    known = config_type.__struct_fields__
    ready = {}
    for key, value in values.items():
        if key not in known:
            raise InvalidOptionError(key, HIDDEN, f"unknown option{_suggestion(key, known)}")
        ready[key] = _typed(key, value, config_type.__annotations__[key])
    try:
        return msgspec.convert(ready, config_type)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at `$.")
        key = path.rstrip("`").partition("[")[0]
        raise InvalidOptionError(key, ready.get(key), why) from error


def _from_variable(key: str, value: str) -> object:
    if not key.endswith("_dir"):
        return value
    paths = tuple(filter(None, value.split(":")))
    return paths if len(paths) > 1 else value


def _paths(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(None, [value])) if isinstance(value, str) else value


def _check_paths(name: str, value: str | tuple[str, ...]) -> None:
    paths = _paths(value)
    if len(paths) > DIRECTORY_COUNT_MAX:
        raise InvalidOptionError(name, len(paths), f"at most {DIRECTORY_COUNT_MAX} directories")
    if len(set(paths)) < len(paths) or not all(paths):
        raise InvalidOptionError(name, ", ".join(paths), "a path is empty, or there twice")


def _typed(key: str, value: object, wanted: object) -> object:
    if not isinstance(value, str) or wanted not in (int, float, bool):
        return value
    if wanted is bool:
        if value.lower() not in _TRUTHS:
            raise InvalidOptionError(key, value, f"give one of {', '.join(_TRUTHS)}")
        return _TRUTHS[value.lower()]
    if wanted is float:
        try:
            return float(value)
        except ValueError as error:
            raise InvalidOptionError(key, value, "must be a number such as 0.2") from error
    is_duration = key.removesuffix("_max").endswith("_ms")
    return parse_duration_ms(value, key) if is_duration else parse_size(value, key)


def _suggestion(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}" if known else "; there is none here yet"


def _check_range(config: Config, name: str, low: int, high: int) -> None:
    value = getattr(config, name)
    if not low <= value <= high:
        raise InvalidOptionError(name, value, f"must be between {low} and {high}")


def _check_share(config: BookieConfig, name: str) -> None:
    value = getattr(config, name)
    if not 0 <= value <= 1:  # nor is it, if it is no number
        raise InvalidOptionError(name, value, "must be between 0 and 1")
