"""The status of single servers of a ZooKeeper ensemble, from the command ``srvr``.

Any thread; the functions open connections. Source: ZooKeeper's administrator's guide, "The Four
Letter Words"; ``srvr`` is the one that servers answer by default.
"""

import re
import socket
import ssl
from typing import Final

import msgspec

from zbk.errors import KeyFileError
from zbk.metadata.stores.access import own_access
from zbk.metadata.stores.zookeeper_address import (
    PROBE_S_MIN,
    ZooKeeperAddress,
    is_zookeeper,
    parse_address,
)
from zbk.metadata.stores.zookeeper_tls import connect_server, tls_context, why_failed
from zbk.system.clock import monotonic_us
from zbk.system.event_log import EventLog

ANSWER_SIZE_MAX: Final = 16_384
LOOK_TIMEOUT_S: Final = 1.0

_SOUND: Final = {(3, 8): 6, (3, 9): 5}
"""By series, the first version without known flaws of security: CVE-2023-44981, CVE-2024-23944,
CVE-2024-51504, and CVE-2026-24281 in the check of a TLS host name."""

SOUND_VERSIONS: Final = " or ".join(f"{a}.{b}.{c}" for (a, b), c in _SOUND.items())

LOG: Final = EventLog(__name__)


class ServerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one server; with ``error`` the other fields are unknown."""

    address: str
    error: str = ""
    version: str = ""
    mode: str = ""  # leader, follower, observer or standalone
    connect_ms: float = 0.0  # the time until the answer
    latency_avg_ms: float = 0.0  # of requests, as the server counts it

    @property
    def is_outdated(self) -> bool:
        """True if its version has flaws of security that a later one of its series has not.

        >>> [ServerAnswer(address="", version=one).is_outdated for one in ("3.8.5", "3.9.5", "4.0")]
        [True, False, False]
        """
        found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", self.version)
        if found is None:
            return False
        series, patch = (int(found[1]), int(found[2])), int(found[3] or 0)
        return series < min(_SOUND) or patch < _SOUND.get(series, 0)


def ask_servers(address: ZooKeeperAddress, timeout_s: float) -> list[ServerAnswer]:
    """Return the answer of each server; all have ``timeout_s`` together.

    Raises:
        KeyFileError: a certificate or key of this process cannot be used.
    """
    share_s = max(PROBE_S_MIN, timeout_s / len(address.servers))
    context = tls_context(own_access()) if address.is_tls else None
    return [_ask(host, port, share_s, context) for host, port in address.servers]


def warn_of_outdated(uri: str) -> None:
    """Log each server of a metadata store that is outdated. Silent servers are left out.

    It never fails, because the process works without: a certificate may have been replaced.
    """
    if not is_zookeeper(uri):
        return
    try:
        found = ask_servers(parse_address(uri), LOOK_TIMEOUT_S)
    except KeyFileError as error:
        LOG.info("zookeeper.unseen", "versions of ZooKeeper were not read: %(error)s", error=error)
        return
    for one in found:
        if one.is_outdated:
            LOG.warning(
                "zookeeper.outdated",
                "ZooKeeper server %(address)s has version %(version)s, with known flaws of "
                "security: upgrade it to %(sound)s, or a later one",
                address=one.address,
                version=one.version,
                sound=SOUND_VERSIONS,
            )


def _ask(host: str, port: int, timeout_s: float, context: ssl.SSLContext | None) -> ServerAnswer:
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    started_us = monotonic_us()
    try:
        with connect_server(host, port, timeout_s, context) as connection:
            connection.sendall(b"srvr")
            text = _received(connection).decode("utf-8", "replace")
    except OSError as error:
        return ServerAnswer(address=name, error=why_failed(error))
    connect_ms = (monotonic_us() - started_us) / 1_000
    version = _field(text, r"Zookeeper version: ([^-,\s]+)")
    if not version:
        first_line = text.strip().partition("\n")[0][:100]
        return ServerAnswer(address=name, error=f"no answer to srvr: {first_line or 'silence'}")
    return ServerAnswer(
        address=name,
        version=version,
        mode=_field(text, r"Mode: (\w+)"),
        connect_ms=round(connect_ms, 3),
        latency_avg_ms=float(_field(text, r"Latency min/avg/max: [\d.]+/([\d.]+)/") or 0),
    )


def _received(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    while sum(map(len, parts)) < ANSWER_SIZE_MAX and (part := connection.recv(4_096)):
        parts.append(part)
    return b"".join(parts)


def _field(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""
