"""What the options of clients and logs are, a line each; those of bookies: ``bookie_options``."""

from typing import Final

from zbk.cli.autorecovery.options import AUTORECOVERY_HELP
from zbk.cli.bookie.options import DIRECTORY_OPTIONS, OPTION_HELP

CLIENT_HELP: Final = {
    "entry_size_max": "Largest payload.",
    "pending_size_max": "Bytes of entries that may wait in one writer.",
    "all_pending_size_max": "Bytes of entries that may wait in all writers of a client together.",
    "writer_actor_count": "Threads that serve the writers of a client.",
    "window_size": "Bytes of one writer on their way to the ack quorum.",
    "backlog_size": "Bytes on their way to the slowest bookie, before it holds the writer up.",
    "batch_size_max": "Bytes of entries in one message.",
    "batch_count_max": "Entries in one message.",
    "read_ahead_count": "Read requests in flight for one reader.",
    "read_size_max": "Bytes asked for in one read request.",
    "speculative_read_ms": "Silence after which the next replica is asked, too; 0 is off.",
    "request_timeout_ms": "How long a bookie has to answer.",
    "connect_timeout_ms": "How long connecting may take.",
    "quorum_grace_ms": "How long a writer, or a sync, waits for bookies that it needs.",
    "slow_bookie_ms": "A bookie that alone holds up a writer so long is replaced.",
    "connection_idle_ms": "A connection that nobody uses is closed after this.",
    "explicit_lac_ms": "An idle writer tells its LAC after this; 0: never, nor after sync().",
    "placement": "How bookies are chosen: random or rack.",
    "avoid_failed_ms": "How long a bookie that failed is chosen last.",
    "default_timeout_ms": "How long calls without a timeout of their own may take.",
    "session_timeout_ms": "How long the metadata store waits for a client that is gone.",
}

LOG_HELP: Final = {
    "level": "The least that is logged: debug, info, warning or error.",
    "format": "Log lines as text or as json.",
}

SECTION_HELP: Final[dict[str, dict[str, str]]] = {
    "bookie": {
        "metadata": "The cluster's metadata store, zk://host:port/root.",
        **OPTION_HELP,
        **{name: f"{OPTION_HELP[name]} Several: a list." for name in DIRECTORY_OPTIONS},
    },
    "client": CLIENT_HELP,
    "autorecovery": {
        "metadata": "The cluster's metadata store, zk://host:port/root.",
        **AUTORECOVERY_HELP,
    },
    "log": LOG_HELP,
}
"""Options by table of the configuration file, in the order of the file."""
