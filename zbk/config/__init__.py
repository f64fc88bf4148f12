"""Configuration: the options of each kind of process, their defaults, ranges and help.

Each struct here is one table of the TOML file of a process, and of the environment. The modules:
``units`` (sizes and durations), ``option`` (the declaration of an option), this one (the options),
``sources`` (flags, environment and file, merged). Options of single commands are in ``zbk/cli``.
"""

from typing import Annotated, Final, Literal, TypedDict

import msgspec

from zbk.config.http_address import AUTO, check_http
from zbk.config.option import Option, check_paths, check_range, check_ranges, paths_of
from zbk.config.units import DAY_MS, GIB, HOUR_MS, KIB, MIB, parse_free
from zbk.errors import InvalidOptionError

ENTRY_SIZE_MAX_DEFAULT: Final = 1 * MIB
ENTRY_SIZE_MAX_LIMIT: Final = 64 * MIB
MESSAGE_OVERHEAD_SIZE: Final = 64 * KIB
"""Room in a message beside its entries: header, sizes of entries."""

MEMORY_MAX_LIMIT: Final = 1 << 50

MEMORY_MIN: Final = 320 * MIB
"""Approximate memory of a bookie beside its index and the requests of one client."""


OwnLogMode = Literal["never", "bypass", "always"]
"""The ledgers that may have an entry log of their own (``zbk.storage.entry_logs.own_logs``)."""

OWN_LOG_COUNT_DEFAULT: Final = 64

Security = Literal["auto", "off", "allowed", "required"]
"""Whether connections are encrypted (``zbk.security.credentials``)."""

_SECURITY_HELP: Final = (
    "Encryption: off; allowed, beside connections without it; required; "
    "or auto: required with a key, else off."
)

MetadataUser = Annotated[
    str,
    Option("User of this process at the metadata store; ZooKeeper only.", unit="NAME"),
]
MetadataPasswordFile = Annotated[
    str, Option("File with the password of that user, which only its owner may read.", unit="FILE")
]
MetadataAuth = Annotated[
    Literal["digest", "sasl"],
    Option(
        "How the user proves who it is: digest, for any ZooKeeper; or sasl, with DIGEST-MD5, for "
        "servers that have users of their own.",
        unit="WORD",
    ),
]
MetadataCa = Annotated[
    str,
    Option(
        "Certificates (PEM) of the authorities that a zk+tls:// server may be certified by; "
        "empty: those of this machine.",
        unit="FILE",
    ),
]
MetadataCertificate = Annotated[
    str,
    Option("Certificate (PEM) that this process shows to a zk+tls:// server.", unit="FILE"),
]
MetadataCertificateKey = Annotated[
    str, Option("Private key (PEM) of that certificate.", unit="FILE")
]


class MetadataAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How a process reaches a metadata store that is not open to everyone."""

    user: str = ""
    password_file: str = ""
    auth: Literal["digest", "sasl"] = "digest"
    ca: str = ""
    certificate: str = ""
    certificate_key: str = ""


class BookieConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bookie. TOML table ``[bookie]``, environment ``ZBK_BOOKIE_<KEY>``."""

    metadata: Annotated[str, Option("The cluster's metadata store, zk://host:port/root.")] = ""
    journal_dir: Annotated[
        str | tuple[str, ...], Option("Directory of a journal, fastest on a disk of its own.")
    ] = ""
    ledger_dir: Annotated[str | tuple[str, ...], Option("Directory of entry logs and index.")] = ""
    listen: Annotated[str, Option("Address to listen on.", unit="ADDRESS")] = "tcp://127.0.0.1:3181"
    advertise: Annotated[
        str, Option("Address given to clients, if it is not the one listened on.", unit="ADDRESS")
    ] = ""
    rack: Annotated[str, Option("Rack of the bookie, for placement.", unit="NAME")] = ""
    http: Annotated[
        str,
        Option(
            "Address of /metrics, /livez, /readyz and /version. auto: 127.0.0.1, at the port of "
            "--listen plus 6000, or at any free port.",
            unit="HOST:PORT|auto|off",
        ),
    ] = AUTO
    entry_size_max: Annotated[int, Option("Largest payload.", 1, ENTRY_SIZE_MAX_LIMIT)] = (
        ENTRY_SIZE_MAX_DEFAULT
    )
    connection_credit_size: Annotated[
        int, Option("Bytes of requests that one client may have in flight.", 2, 4 * GIB)
    ] = 64 * MIB
    connection_count_max: Annotated[
        int, Option("Clients at a time; fewer where `ulimit -n` is small.", 1, 1_000_000)
    ] = 4096
    handshake_ms: Annotated[
        int, Option("Time in which a new connection must send HELLO.", 100, 600_000)
    ] = 5_000
    connection_idle_ms: Annotated[
        int, Option("Silence after which a client must send HELLO again.", 10, DAY_MS)
    ] = 600_000
    identity_request_rate: Annotated[
        int,
        Option(
            "Requests a second of one client, by its key or connection; 0 is off.",
            0,
            10**9,
            is_live=True,
        ),
    ] = 0
    identity_rate_size: Annotated[
        int,
        Option("Bytes of requests a second of one client; 0 is off.", 0, 64 * GIB, is_live=True),
    ] = 0
    identity_fence_rate: Annotated[
        int, Option("Fences a second of one client; 0 is off.", 0, 1_000_000, is_live=True)
    ] = 500
    read_size_max: Annotated[int, Option("Bytes in one read reply.", 64 * KIB, 256 * MIB)] = 4 * MIB
    journal_segment_size: Annotated[int, Option("Size of a journal file.", 1 * MIB, 4 * GIB)] = (
        64 * MIB
    )
    journal_unsynced_size_max: Annotated[
        int, Option("Bytes written ahead of the running fsync.", 1 * MIB, 4 * GIB)
    ] = 64 * MIB
    entry_log_size_max: Annotated[
        int, Option("Size at which an entry log is sealed.", 1 * MIB, 4 * GIB)
    ] = 1 * GIB
    entry_log_per_ledger: Annotated[
        OwnLogMode,
        Option(
            "Which ledgers have entry logs of their own: none, those of type vd-bypass, or all.",
            unit="never|bypass|always",
        ),
    ] = "bypass"
    own_log_count_max: Annotated[
        int,
        Option(
            "Entry logs of one ledger each that are open at once, of each ledger directory.",
            0,
            10_000,
        ),
    ] = OWN_LOG_COUNT_DEFAULT
    ledger_cache_size: Annotated[int, Option("Memory for index pages.", 64 * KIB, 64 * GIB)] = (
        256 * MIB
    )
    open_files_max: Annotated[
        int,
        Option(
            "Index files and entry logs kept open; fewer where `ulimit -n` is small.", 8, 1_000_000
        ),
    ] = 512
    memory_max: Annotated[
        int,
        Option(
            "Memory at which the bookie stops, to be restarted by its supervisor; 0 is off.",
            0,
            MEMORY_MAX_LIMIT,
        ),
    ] = 0
    checkpoint_interval_ms: Annotated[
        int,
        Option(
            "Interval of checkpoints, which make entry logs and index durable.",
            10,
            HOUR_MS,
            is_live=True,
        ),
    ] = 10_000
    checkpoint_journal_size: Annotated[
        int,
        Option(
            "Journal bytes that start one early; 6 times that with many ledgers.",
            1 * MIB,
            64 * GIB,
            is_live=True,
        ),
    ] = 256 * MIB
    sync_interval_ms: Annotated[
        int,
        Option("Interval of background fsyncs of vd ledgers; 0 is off.", 0, HOUR_MS, is_live=True),
    ] = 1_000
    boot_id: Annotated[
        str,
        Option(
            "Changes whenever the page cache may be lost; empty: the machine's boot id.",
            unit="NAME",
        ),
    ] = ""
    limbo_grace_ms: Annotated[
        int, Option("Time that a re-check after an unclean stop waits for peers.", 0, DAY_MS)
    ] = 60_000
    session_timeout_ms: Annotated[
        int, Option("Time that a dead bookie stays registered.", 1_000, 600_000)
    ] = 10_000
    gc_interval_ms: Annotated[
        int,
        Option(
            "Interval of garbage collection of deleted ledgers; 0 is off.",
            0,
            7 * DAY_MS,
            is_live=True,
        ),
    ] = 900_000
    gc_confirm_delay_ms: Annotated[
        int,
        Option(
            "Time between the two lookups that confirm a ledger's deletion.",
            10,
            HOUR_MS,
            is_live=True,
        ),
    ] = 10_000
    compaction_minor_threshold: Annotated[
        float,
        Option(
            "Live share below which minor compaction takes an entry log; 0 is off.",
            0,
            1,
            is_live=True,
        ),
    ] = 0.2
    compaction_minor_interval_ms: Annotated[
        int, Option("Interval of minor compaction; 0 is off.", 0, 366 * DAY_MS, is_live=True)
    ] = HOUR_MS
    compaction_major_threshold: Annotated[
        float,
        Option("Live share below which major compaction takes one; 0 is off.", 0, 1, is_live=True),
    ] = 0.8
    compaction_major_interval_ms: Annotated[
        int, Option("Interval of major compaction; 0 is off.", 0, 366 * DAY_MS, is_live=True)
    ] = DAY_MS
    compaction_rate_size: Annotated[
        int,
        Option(
            "Bytes a second that compaction reads and writes; 0 is no limit.",
            0,
            1024 * GIB,
            is_live=True,
        ),
    ] = 32 * MIB
    scrub_interval_ms: Annotated[
        int,
        Option(
            "Interval of scrubs, which read all files to find damage; 0 is off.",
            0,
            365 * DAY_MS,
            is_live=True,
        ),
    ] = 7 * DAY_MS
    scrub_rate_size: Annotated[
        int, Option("Bytes a second that a scrub reads; 0 is no limit.", 0, 64 * GIB, is_live=True)
    ] = 8 * MIB
    disk_warn_free: Annotated[
        int | str, Option("Free space of a disk below which the bookie warns.", is_live=True)
    ] = "1 GiB"
    disk_readonly_free: Annotated[
        int | str,
        Option("Free space of a disk below which the bookie refuses new entries.", is_live=True),
    ] = "512 MiB"
    disk_reserve_size: Annotated[
        int, Option("Space reserved in each directory for when its disk is full.", 2 * MIB, 1 * GIB)
    ] = 16 * MIB

    def __post_init__(self) -> None:
        check_ranges(self)
        check_http(self.http)
        parse_free(self.disk_warn_free, "disk_warn_free")
        parse_free(self.disk_readonly_free, "disk_readonly_free")
        check_paths("journal_dir", self.journal_dir)
        check_paths("ledger_dir", self.ledger_dir)
        check_range(self, "connection_credit_size", self.entry_size_max * 2, 4 * GIB)
        if self.memory_max:  # index and requests fit twice while the bookie changes them
            memory_min = MEMORY_MIN + self.ledger_cache_size + self.connection_credit_size
            check_range(self, "memory_max", memory_min, MEMORY_MAX_LIMIT)

    @property
    def journal_dirs(self) -> tuple[str, ...]:
        """The journal directories, in the order that counts; none if none is given."""
        return paths_of(self.journal_dir)

    @property
    def ledger_dirs(self) -> tuple[str, ...]:
        """The ledger directories, in the order that counts; none if none is given."""
        return paths_of(self.ledger_dir)


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One client. Keywords of ``zbk.connect``; TOML table ``[client]``."""

    entry_size_max: Annotated[int, Option("Largest payload.", 1, ENTRY_SIZE_MAX_LIMIT)] = (
        ENTRY_SIZE_MAX_DEFAULT
    )
    pending_size_max: Annotated[
        int, Option("Bytes of entries that may wait in one writer.", 64 * KIB, 16 * GIB)
    ] = 64 * MIB
    all_pending_size_max: Annotated[
        int,
        Option(
            "Bytes of entries that may wait in all writers of a client together.",
            64 * KIB,
            64 * GIB,
        ),
    ] = 128 * MIB
    writer_actor_count: Annotated[
        int, Option("Threads that serve the writers of a client.", 1, 64)
    ] = 4
    window_size: Annotated[
        int, Option("Bytes of one writer in flight to the ack quorum.", 64 * KIB, 1 * GIB)
    ] = 8 * MIB
    backlog_size: Annotated[
        int,
        Option(
            "Bytes in flight to the slowest bookie before it holds up the writer.",
            64 * KIB,
            1 * GIB,
        ),
    ] = 96 * MIB
    unsynced_size_max: Annotated[
        int,
        Option(
            "Bytes of acknowledged VD entries that one writer keeps until they are durable.",
            64 * KIB,
            16 * GIB,
        ),
    ] = 64 * MIB
    all_unsynced_size_max: Annotated[
        int,
        Option(
            "Bytes of acknowledged VD entries that all writers of a client keep together.",
            64 * KIB,
            64 * GIB,
        ),
    ] = 256 * MIB
    batch_size_max: Annotated[int, Option("Bytes of entries in one message.", 4 * KIB, 4 * MIB)] = (
        1 * MIB
    )
    batch_count_max: Annotated[int, Option("Entries in one message.", 1, 65_536)] = 8192
    read_ahead_count: Annotated[int, Option("Read requests in flight for one reader.", 1, 256)] = 4
    read_size_max: Annotated[int, Option("Bytes in one read request.", 4 * KIB, 64 * MIB)] = 1 * MIB
    speculative_read_ms: Annotated[
        int, Option("Silence after which the next replica is also asked; 0 is off.", 0, HOUR_MS)
    ] = 200
    request_timeout_ms: Annotated[int, Option("Time that a bookie has to answer.", 10, HOUR_MS)] = (
        5_000
    )
    connect_timeout_ms: Annotated[int, Option("Time that connecting may take.", 10, HOUR_MS)] = (
        5_000
    )
    quorum_grace_ms: Annotated[
        int, Option("Time that a writer, or a sync, waits for bookies that it needs.", 0, HOUR_MS)
    ] = 5_000
    slow_bookie_ms: Annotated[
        int,
        Option("Time after which a bookie that alone holds up a writer is replaced.", 100, HOUR_MS),
    ] = 2_000
    connection_idle_ms: Annotated[
        int, Option("Time after which an unused connection is closed.", 10, DAY_MS)
    ] = 60_000
    explicit_lac_ms: Annotated[
        int,
        Option(
            "Time after which an idle writer sends its LAC; 0: never, nor after sync().",
            0,
            HOUR_MS,
        ),
    ] = 2
    spin_us: Annotated[
        int,
        Option(
            "Microseconds of busy polling after each event of a connection; 0 is off.",
            0,
            1_000,
        ),
    ] = 0
    placement: Annotated[
        Literal["random", "rack"], Option("Choice of bookies: random or rack.")
    ] = "random"
    avoid_failed_ms: Annotated[
        int, Option("Time for which a bookie that failed is chosen last.", 0, DAY_MS)
    ] = 60_000
    default_timeout_ms: Annotated[
        int, Option("Time that calls without a timeout may take.", 10, DAY_MS)
    ] = 60_000
    session_timeout_ms: Annotated[
        int, Option("Time after which the metadata store drops a dead client.", 1_000, 600_000)
    ] = 10_000
    key: Annotated[str, Option("Private key file of the client.", unit="FILE")] = ""
    security: Annotated[Security, Option(_SECURITY_HELP, unit="WORD")] = "auto"
    metadata_user: MetadataUser = ""
    metadata_password_file: MetadataPasswordFile = ""
    metadata_auth: MetadataAuth = "digest"
    metadata_ca: MetadataCa = ""
    metadata_certificate: MetadataCertificate = ""
    metadata_certificate_key: MetadataCertificateKey = ""
    audit_log: Annotated[
        str,
        Option(
            "File of the audit log of a client: ledgers that it creates and deletes, and grants. "
            "Empty: none.",
            unit="FILE",
        ),
    ] = ""

    def __post_init__(self) -> None:
        check_ranges(self)


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
    unsynced_size_max: int | str
    all_unsynced_size_max: int | str
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
    spin_us: int
    placement: Literal["random", "rack"]
    avoid_failed_ms: int | str
    default_timeout_ms: int | str
    session_timeout_ms: int | str
    key: str
    security: Security
    metadata_user: str
    metadata_password_file: str
    metadata_auth: Literal["digest", "sasl"]
    metadata_ca: str
    metadata_certificate: str
    metadata_certificate_key: str
    audit_log: str


class AutorecoveryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The auditor and the replication workers. TOML table ``[autorecovery]``."""

    metadata: Annotated[str, Option("The cluster's metadata store, zk://host:port/root.")] = ""
    http: Annotated[
        str,
        Option(
            "Address of /metrics, /livez, /readyz and /version. auto: 127.0.0.1:9180, or any "
            "free port.",
            unit="HOST:PORT|auto|off",
        ),
    ] = AUTO
    session_timeout_ms: Annotated[
        int, Option("Time after which other processes take over from a dead one.", 1_000, 600_000)
    ] = 10_000
    lost_bookie_delay_ms: Annotated[
        int,
        Option(
            "Time that one bookie may be away before its ledgers are copied.",
            0,
            7 * DAY_MS,
            is_live=True,
        ),
    ] = 300_000
    brake_share_percent: Annotated[
        int,
        Option(
            "Share of the bookies that, lost at once, makes the auditor look again.",
            1,
            100,
            is_live=True,
        ),
    ] = 20
    brake_window_ms: Annotated[
        int,
        Option("Time within which lost bookies count as lost at once.", 0, HOUR_MS, is_live=True),
    ] = 60_000
    brake_hold_ms: Annotated[
        int, Option("Time that the auditor waits before it looks again.", 0, HOUR_MS, is_live=True)
    ] = 15_000
    bookie_check_interval_ms: Annotated[
        int,
        Option(
            "Interval of the search of all ledgers for lost bookies; 0 is off.",
            0,
            366 * DAY_MS,
            is_live=True,
        ),
    ] = DAY_MS
    ledger_check_interval_ms: Annotated[
        int,
        Option(
            "Interval of the check that reads replicas; 0 is off.", 0, 366 * DAY_MS, is_live=True
        ),
    ] = 7 * DAY_MS
    ledger_check_full: Annotated[
        bool, Option("Read every entry, not only the first and last of each fragment.")
    ] = False
    placement_check_interval_ms: Annotated[
        int,
        Option(
            "Interval of counting replicas on one rack; 0 is off.", 0, 366 * DAY_MS, is_live=True
        ),
    ] = 0
    replicas_check_interval_ms: Annotated[
        int,
        Option(
            "Interval of asking bookies which entries they hold; 0 is off.",
            0,
            366 * DAY_MS,
            is_live=True,
        ),
    ] = DAY_MS
    worker_count: Annotated[int, Option("Ledgers that are repaired at the same time.", 1, 64)] = 2
    open_ledger_grace_ms: Annotated[
        int,
        Option("Time that a writer has to continue before its ledger is fenced.", 0, DAY_MS),
    ] = 30_000
    replication_rate_size: Annotated[
        int, Option("Bytes a second that are copied; 0 is no limit.", 0, 64 * GIB, is_live=True)
    ] = 16 * MIB
    repair_retry_ms_max: Annotated[
        int,
        Option("Longest pause between two attempts at one ledger; the first is 1/16.", 16, DAY_MS),
    ] = 300_000
    target_policy: Annotated[
        Literal["placement", "local"],
        Option("Choice of the bookies that receive copies: placement (by rack), or local."),
    ] = "placement"
    local_bookie_id: Annotated[str, Option("The bookie that the target policy local fills.")] = ""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_http(self.http)
        if self.target_policy == "local" and not self.local_bookie_id:
            raise InvalidOptionError("local_bookie_id", "", 'target_policy = "local" needs one')


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Log lines of a server process. TOML table ``[log]``, environment ``ZBK_LOG_<KEY>``."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Option("Lowest level that is logged: debug, info, warning or error."),
    ] = "info"
    format: Annotated[
        Literal["text", "console", "json"],
        Option("Format of log lines: text, console (another name of it) or json."),
    ] = "text"


class SecurityConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a process. TOML table ``[security]``, environment ``ZBK_<KEY>``."""

    key: Annotated[
        str, Option("Private key file of this process, from `zbk key generate`.", unit="FILE")
    ] = ""
    security: Annotated[Security, Option(_SECURITY_HELP, unit="WORD")] = "auto"
    secure_listen: Annotated[
        str,
        Option(
            "Second address of a bookie, for encrypted connections, while its security is "
            "allowed; empty: any free port at the host of --listen.",
            unit="ADDRESS",
        ),
    ] = ""
    insecure: Annotated[
        bool, Option("Let a bookie without a key listen to other machines. Anyone can use it.")
    ] = False
    audit_log: Annotated[
        str,
        Option(
            "File of the audit log: who did what, and who was refused. Empty: none.", unit="FILE"
        ),
    ] = ""
    audit_file_size_max: Annotated[
        int, Option("Size at which the audit log begins a new file.", 64 * KIB, 4 * GIB)
    ] = 64 * MIB
    audit_file_count: Annotated[
        int, Option("Files of the audit log that are kept, with the one that is written.", 1, 1_000)
    ] = 8
    metadata_user: MetadataUser = ""
    metadata_password_file: MetadataPasswordFile = ""
    metadata_auth: MetadataAuth = "digest"
    metadata_ca: MetadataCa = ""
    metadata_certificate: MetadataCertificate = ""
    metadata_certificate_key: MetadataCertificateKey = ""

    @property
    def for_clients(self) -> ClientConfig:
        """The options of a client that has this key."""
        return ClientConfig(key=self.key, security=self.security)


def access_of(config: ClientConfig | SecurityConfig) -> MetadataAccess:
    """Return the access to the metadata store that options name."""
    return MetadataAccess(
        user=config.metadata_user,
        password_file=config.metadata_password_file,
        auth=config.metadata_auth,
        ca=config.metadata_ca,
        certificate=config.metadata_certificate,
        certificate_key=config.metadata_certificate_key,
    )


def own_access_of(config: ClientConfig) -> MetadataAccess | None:
    """Return the access that a client has for itself; ``None``: that of its process."""
    found = access_of(config)
    return None if found == MetadataAccess() else found


NO_SECURITY: Final = SecurityConfig()
"""That of a process without a key."""

Config = BookieConfig | ClientConfig | AutorecoveryConfig | LogConfig | SecurityConfig
ConfigType = type[Config]

SECTIONS: dict[str, ConfigType] = {
    "bookie": BookieConfig,
    "client": ClientConfig,
    "autorecovery": AutorecoveryConfig,
    "log": LogConfig,
    "security": SecurityConfig,
}
"""The tables of a configuration file."""
