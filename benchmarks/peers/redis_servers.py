"""Redis: one master and two replicas, each with an append-only file that is always fsynced.

The meaning of a confirmation depends on the version:

- from 7.2 on ``WAITAOF 1 1``: the append-only files of the master and of a replica are fsynced, so
  two of three copies are on disk, like an acknowledged PD entry of zbk. A ``WAIT 1`` comes before
  it: a replica that is asked at once reports its state before these entries, and reports again only
  after a second; a replica that is asked after it has received them answers at once;
- before that ``WAIT 1``: the master's file is fsynced (``appendfsync always`` comes before the
  answer) and a replica has *received* the entries. Its settings make it likely that the replica has
  fsynced them, but no answer says so. A failover may still choose a replica that lacks them: Redis
  has no fencing and no agreement.

Snapshots and rewrites of the file are off: they would fall into some runs and not into others.
"""

from pathlib import Path
from typing import Final

from benchmarks.peers.load import Durability
from benchmarks.peers.servers import HOST, Version

PROGRAM: Final = "redis-server"
STREAM: Final = "zbk-peers"
WAITAOF_SINCE: Final[Version] = (7, 2, 0)
CONFIRM_TIMEOUT_MS: Final = 30_000

Command = tuple[str | bytes | int, ...]


def server_arguments(folder: Path, port: int, master_port: int | None) -> list[str]:
    """Return a server's options; ``master_port`` makes it a replica."""
    options = {
        "bind": HOST,
        "port": str(port),
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "always",
        "auto-aof-rewrite-percentage": "0",
        "save": "",
        "repl-diskless-sync-delay": "0",
        "client-output-buffer-limit": "replica 0 0 0",  # a replica that lags is not cut off
    }
    if master_port is not None:
        options["replicaof"] = f"{HOST} {master_port}"
    return [part for name, value in options.items() for part in (f"--{name}", value)]


def add_command(payload: bytes) -> Command:
    """Return the command that appends an entry."""
    return ("XADD", STREAM, "*", "p", payload)


def confirm_commands(version: Version) -> list[Command]:
    """Return the commands that wait until two of three have the entries of this connection."""
    received: Command = ("WAIT", 1, CONFIRM_TIMEOUT_MS)
    if version >= WAITAOF_SINCE:
        return [received, ("WAITAOF", 1, 1, CONFIRM_TIMEOUT_MS)]
    return [received]


def is_confirmed(answer: object) -> bool:
    """Return whether the answer to a confirm command reports enough copies.

    ``WAIT`` answers with a count of replicas, ``WAITAOF`` with local files and replicas.
    """
    match answer:
        case [int(local_count), int(replica_count)]:
            return local_count >= 1 and replica_count >= 1
        case int(replica_count):
            return replica_count >= 1
    return False


def durability(version: Version) -> Durability:
    """Return the meaning of a confirmation."""
    if version >= WAITAOF_SINCE:
        text = "WAITAOF 1 1, appendfsync always: fsynced by the master and by one replica of two"
    else:
        text = "WAIT 1, appendfsync always: fsynced by the master, received by one replica of two"
    return Durability(text, is_fsynced=True)


def online_replica_count(replication: str) -> int:
    """Return the number of connected replicas, from the text of ``INFO replication``.

    >>> online_replica_count("slave0:ip=127.0.0.1,port=1,state=online,offset=14,lag=1")
    1
    """
    lines = replication.splitlines()
    return sum(line.startswith("slave") and ",state=online," in line for line in lines)
