"""The value of the options ``http``: where a process serves its metrics and health.

>>> parse_http("127.0.0.1:9181"), parse_http("[::1]:0")
(('127.0.0.1', 9181), ('::1', 0))
"""

import ipaddress
from typing import Final

from zbk.errors import InvalidOptionError

AUTO: Final = "auto"
OFF: Final = "off"

HTTP_PORT_STEP: Final = 6_000
"""A bookie's port plus this is the port that ``auto`` prefers: 3181 has 9181."""

EPHEMERAL_PORT_MIN: Final = 32_768
"""Linux gives ports from here on to any process; what ``auto`` derives from one means nothing."""

_PORT_MAX: Final = 65_535


def check_http(value: str) -> None:
    """Check an option.

    Raises:
        InvalidOptionError: neither ``auto``, nor ``off``, nor an address.
    """
    if value not in (AUTO, OFF):
        parse_http(value)


def parse_http(value: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; port 0 is any free one.

    Raises:
        InvalidOptionError: it is no such address.
    """
    host, colon, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) <= _PORT_MAX):
        raise InvalidOptionError("http", value, "give HOST:PORT such as 127.0.0.1:9181, or off")
    return host, int(port)


def http_of_process(value: str, number: int) -> str:
    """Return the option of one of several processes, which have consecutive ports.

    >>> http_of_process("127.0.0.1:9181", 2), http_of_process("off", 2)
    ('127.0.0.1:9183', 'off')
    """
    if value in (AUTO, OFF):
        return value
    host, port = parse_http(value)
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port + number if port else 0}"


def host_of(address: str) -> str:
    """Return the host of a bookie's address.

    >>> host_of("tcp://b1.example.org:3181")
    'b1.example.org'
    """
    return address.partition("://")[2].rpartition(":")[0].strip("[]")


def http_port_of(listen: str) -> int:
    """Return the port that ``auto`` prefers for a bookie at this address; 0: any free one.

    >>> http_port_of("tcp://127.0.0.1:3181"), http_port_of("tcp://127.0.0.1:0")
    (9181, 0)
    """
    port = listen.rpartition(":")[2]
    if not port.isdecimal() or not 0 < int(port) < EPHEMERAL_PORT_MIN - HTTP_PORT_STEP:
        return 0
    return int(port) + HTTP_PORT_STEP


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
