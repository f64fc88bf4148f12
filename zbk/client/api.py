"""The client: what ``zbk.connect`` returns.

Source: BookKeeper's ``BookKeeper`` client API (``CreateBuilder``, ``OpenBuilder``,
``DeleteBuilder``); names as BookKeeper has them.
"""

import atexit
import os
import weakref
from contextlib import suppress
from typing import Final, Unpack

from zbk.client import arguments
from zbk.client.calls.bookies import BookieCalls
from zbk.client.calls.connection import URI_SIZE_MAX, check_registry
from zbk.client.calls.logs import LogCalls
from zbk.client.calls.rights import RightsCalls
from zbk.client.calls.self_test import SelfTestCalls
from zbk.config import ClientConfig, ClientOptions
from zbk.config.sources import convert
from zbk.errors import ForkedProcessError, InvalidOptionError, TooManyOpenFilesError
from zbk.metrics.registry import MetricRegistry
from zbk.system.context import read_context
from zbk.system.descriptors import has_descriptors
from zbk.tracing.setup import TracerProvider

METADATA_VARIABLE: Final = "ZBK_METADATA"

KEY_VARIABLES: Final = {"key": "ZBK_KEY", "security": "ZBK_SECURITY"}
"""Options of a client that the environment has, if the call does not give them."""

DESCRIPTOR_COUNT: Final = 32
"""File descriptors that a client needs: metadata store, ZeroMQ's threads, a first connection."""


def connect(
    uri: str | None = None,
    *,
    metrics: MetricRegistry | None = None,
    tracing: TracerProvider | bool = True,
    **options: Unpack[ClientOptions],
) -> "Client":
    """Connect to a cluster.

    ``uri`` is the address of its metadata: ``zk://host:port[,host:port]/root`` or, on one host,
    ``sqlite:///path``. The default is ``$ZBK_METADATA``, then the cluster that ``zbk up`` runs.
    ``options`` are the fields of ``zbk.config.ClientConfig``; sizes may be texts like ``"1 MiB"``
    and durations like ``"2s"``. ``metrics`` is a ``prometheus_client.CollectorRegistry``, which
    exposes the metrics of this client until it is closed; each client needs its own. With
    ``tracing`` the client adds spans to the OpenTelemetry traces of its callers: through the global
    tracer provider, if the program has imported ``opentelemetry``, or the provider that is given.

    ``key`` is the path of a private key file (``zbk key generate``); the default is ``$ZBK_KEY``.
    With a key the client connects to bookies encrypted, and to no bookie without a key unless
    ``security`` is ``"allowed"``. It accepts only the key that a bookie has in the metadata store.

    Raises:
        InvalidOptionError: an unknown option, a bad address, or none at all.
        MetadataUnavailableError: there is no answer at that address within ``connect_timeout_ms``
            (5 s), which is for all steps together.
        KeyFileError: the key file cannot be used.
        MissingDependencyError: encryption is wanted, and libzmq is too old or lacks CURVE.
        TooManyOpenFilesError: the process has no file descriptors left for a client.

    Examples:
        >>> import zbk
        >>> with zbk.connect() as client:                        # doctest: +SKIP
        ...     with client.create_ledger() as ledger:
        ...         ledger.append(b"hello")
        0
    """
    if uri is not None:
        uri = arguments.text("uri", uri, URI_SIZE_MAX)
    check_registry(metrics)
    arguments.tracing(tracing)
    given = {name: os.environ[one] for name, one in KEY_VARIABLES.items() if one in os.environ}
    config = convert(ClientConfig, given | options)
    address = uri or os.environ.get(METADATA_VARIABLE) or read_context()
    if not address:
        raise InvalidOptionError(
            "metadata",
            "",
            f"no cluster given: start one with `zbk up`, or set {METADATA_VARIABLE}, "
            "or give its address",
        )
    if not has_descriptors(DESCRIPTOR_COUNT):
        raise TooManyOpenFilesError(f"cannot connect to {address}")
    return Client(address, config, metrics, tracing)


_open_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close every client that the application has left open.

    Its threads would run on while the interpreter ends, and fail there with tracebacks. Pending
    calls fail with ``ClientClosedError``.
    """
    for client in list(_open_clients):
        with suppress(ForkedProcessError):  # that process closes it
            client.close()


class Client(LogCalls, BookieCalls, RightsCalls, SelfTestCalls):
    """A connection to a cluster. Any thread may use it; close it, or use it as a context manager.

    A client belongs to the process that made it: in a forked child every call raises
    ``ForkedProcessError``.
    """

    def __init__(
        self,
        uri: str,
        config: ClientConfig,
        metrics: MetricRegistry | None = None,
        tracing: TracerProvider | bool = True,
    ) -> None:
        super().__init__(uri, config, metrics, tracing)
        _open_clients.add(self)
