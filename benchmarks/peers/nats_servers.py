"""NATS JetStream: three servers in a cluster, a stream of three copies in files.

A confirmation is JetStream's acknowledgement: a majority (two of three) has the entry in its
replicated log. The meaning of "has" depends on the version:

- from 2.10.23 on ``sync_interval: always`` covers the replicated log: each server fsyncs before it
  answers, so two of three copies are on disk, like an acknowledged PD entry of zbk;
- earlier 2.10 versions apply it to the stream's file, which follows the replicated log: the leader,
  which answers after storing the entry, has fsynced it, the others have it in memory;
- before that the setting does not exist: the entries are in the page caches of a majority, and
  fsynced every minute. That is the promise of zbk's VD before a ``sync``, not of PD.

Source: ``SyncAlways`` in nats-server's ``stream.go`` and ``jetstream_cluster.go``, by version.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.load import Durability
from benchmarks.peers.servers import HOST, Version

PROGRAM: Final = "nats-server"
STREAM: Final = "zbk-peers"
SUBJECT: Final = "zbk.peers"
SYNC_ALWAYS_SINCE: Final[Version] = (2, 10, 0)
LOG_SYNC_ALWAYS_SINCE: Final[Version] = (2, 10, 23)
CONNECT_TIMEOUT_S: Final = 2.0

_CONFIGURATION = """\
server_name: nats{index}
listen: "{host}:{port}"
jetstream {{
  store_dir: {folder}
{sync}}}
cluster {{
  name: zbk-peers
  listen: "{host}:{cluster_port}"
  routes: [{routes}]
}}
"""


def configuration(
    folder: Path, index: int, version: Version, ports: Sequence[int], cluster_ports: Sequence[int]
) -> str:
    """Return the configuration file of one server of a cluster."""
    has_sync = version >= SYNC_ALWAYS_SINCE
    return _CONFIGURATION.format(
        index=index,
        host=HOST,
        port=ports[index],
        folder=_quoted(str(folder)),
        sync='  sync_interval: "always"\n' if has_sync else "",
        cluster_port=cluster_ports[index],
        routes=", ".join(_quoted(f"nats://{HOST}:{port}") for port in cluster_ports),
    )


def subject_of(stream: str) -> str:
    """Return the subject of a stream's messages.

    >>> subject_of("zbk-peers-7")
    'zbk.peers.7'
    """
    return stream.replace("-", ".")


def durability(version: Version) -> Durability:
    """Return the meaning of an acknowledgement."""
    if version >= LOG_SYNC_ALWAYS_SINCE:
        return Durability("R3, sync_interval always: fsynced by a majority", is_fsynced=True)
    if version >= SYNC_ALWAYS_SINCE:
        text = "R3, sync_interval always: fsynced by the leader, in the page caches of a majority"
        return Durability(text, is_fsynced=True)
    text = "R3: in the page caches of a majority, fsynced every minute"
    return Durability(text, is_fsynced=False)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
