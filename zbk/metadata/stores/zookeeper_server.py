"""The status of single servers of a ZooKeeper ensemble, from the command ``srvr``.

Any thread; the functions open connections. Source: ZooKeeper's administrator's guide, "The Four
Letter Words"; ``srvr`` is the one that servers answer by default.
"""

import re
import socket
import ssl
from typing import Final

import msgspec

from zbk.metadata.stores.access import own_access
from zbk.metadata.stores.zookeeper_address import PROBE_S_MIN, ZooKeeperAddress
from zbk.metadata.stores.zookeeper_tls import connect_server, tls_context, why_failed
from zbk.system.clock import monotonic_us

ANSWER_SIZE_MAX: Final = 16_384


class ServerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one server; with ``error`` the other fields are unknown."""

    address: str
    error: str = ""
    version: str = ""
    mode: str = ""  # leader, follower, observer or standalone
    connect_ms: float = 0.0  # the time until the answer
    latency_avg_ms: float = 0.0  # of requests, as the server counts it


def ask_servers(address: ZooKeeperAddress, timeout_s: float) -> list[ServerAnswer]:
    """Return the answer of each server; all have ``timeout_s`` together.

    Raises:
        KeyFileError: a certificate or key of this process cannot be used.
    """
    share_s = max(PROBE_S_MIN, timeout_s / len(address.servers))
    context = tls_context(own_access()) if address.is_tls else None
    return [_ask(host, port, share_s, context) for host, port in address.servers]


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
