"""Experiment: the cost of encryption, with and without it in turn.

Two clusters of three bookies run at the same time; only one of them works. The bookies of one
require keys, those of the other have none. Each round appends entries with ``append_many``, then
some one by one, in either cluster, the first one in turn. The figures are medians of the rounds.

The CPU time of an append is that of the client and of the three bookies together. Other work on the
machine changes it less than the rate, so ``tests/security/test_encryption_cost.py`` watches it.

Then connections are opened to one encrypting bookie, ``CONNECTING_COUNT`` at a time, by one
process: each is through its handshake when its HELLO is answered.
"""

import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import zmq

from benchmarks.experiments.processor_time import processor_ns
from zbk.client.api import Client, connect
from zbk.cluster.local import LocalCluster
from zbk.cluster.local_keys import LocalKeys
from zbk.security.keys import KeyPair, read_pair, read_public
from zbk.system.clock import monotonic_s
from zbk.transport.curve import connect_encrypted
from zbk.wire import codec
from zbk.wire.messages import Hello, HelloAnswer

CONNECTING_COUNT: Final = 20
ANSWER_TIMEOUT_MS: Final = 10_000
HANDSHAKE_ROUND_COUNT: Final = 5


class EncryptionLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one round, and the rounds."""

    round_count: int = 5
    entry_count: int = 60_000
    entry_size: int = 1024
    batch_count: int = 1_000
    lone_count: int = 500
    handshake_count: int = 400


class EncryptionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of the rounds; the ratio of rates and the difference are those within a round."""

    load: EncryptionLoad
    plain_entries_per_s: float
    encrypted_entries_per_s: float
    rate_ratio: float
    plain_cpu_us: float  # for each entry
    encrypted_cpu_us: float
    cpu_ratio: float  # plain to encrypted, of all rounds together: 1 if encryption costs nothing
    plain_p50_ms: float
    encrypted_p50_ms: float
    added_p50_ms: float
    handshakes_per_s: float


class _Round(msgspec.Struct, frozen=True):
    """What one cluster did in one round."""

    entries_per_s: float
    cpu_us: float
    p50_ms: float


class _Side(msgspec.Struct, frozen=True):
    """One cluster and its client."""

    cluster: LocalCluster
    client: Client

    def cpu_s(self) -> float:
        """Return the CPU time of this process and of the bookies so far."""
        pids = [os.getpid(), *(one.pid for one in self.cluster.bookies)]
        return processor_ns(pids) / 1e9


def run_encryption(folder: Path, load: EncryptionLoad) -> EncryptionResult:
    """Run all rounds in new clusters below ``folder``."""
    with ExitStack() as stack:
        keys = LocalKeys(folder / "encrypted")
        encrypted = stack.enter_context(_cluster(folder / "encrypted" / "data", keys))
        plain = stack.enter_context(_cluster(folder / "plain", None))
        open_client = stack.enter_context(connect(plain.metadata_uri))
        key_client = stack.enter_context(connect(encrypted.metadata_uri, key=keys.path("client")))
        sides = {"plain": _Side(plain, open_client), "encrypted": _Side(encrypted, key_client)}
        found: dict[str, list[_Round]] = {name: [] for name in sides}
        for side in sides.values():
            _round(side, load)  # warm
        for number in range(load.round_count):
            for name in [*sides][:: -1 if number % 2 else 1]:
                found[name].append(_round(sides[name], load))
        server_key = read_public(keys.path("bookie")).public_key
        pair = read_pair(keys.path("client"))
        address = encrypted.bookies[0].address
        rates = [
            _handshakes_per_s(address, server_key, pair, load.handshake_count)
            for _ in range(HANDSHAKE_ROUND_COUNT)
        ]
    return _result(load, found["plain"], found["encrypted"], rates)


@contextmanager
def _cluster(folder: Path, keys: LocalKeys | None) -> Iterator[LocalCluster]:
    flags = () if keys is None else ("--key", keys.path("bookie"))
    with LocalCluster(folder, bookie_flags=flags) as cluster:
        if keys is not None:
            keys.admit(cluster.metadata_uri)
        yield cluster


def _round(side: _Side, load: EncryptionLoad) -> _Round:
    payload = bytes(load.entry_size)
    with side.client.create_ledger() as ledger:
        ledger.append(payload)
        begun_s, begun_cpu_s = monotonic_s(), side.cpu_s()
        futures = [
            ledger.append_many([payload] * load.batch_count)
            for _ in range(load.entry_count // load.batch_count)
        ]
        for future in futures:
            future.result()
        seconds, cpu_s = monotonic_s() - begun_s, side.cpu_s() - begun_cpu_s
        times = [monotonic_s()]
        for _ in range(load.lone_count):
            ledger.append(payload)
            times.append(monotonic_s())
    side.client.delete_ledger(ledger.ledger_id)
    lone_s = statistics.median(after - before for before, after in pairwise(times))
    cpu_us = cpu_s * 1_000_000 / load.entry_count
    return _Round(load.entry_count / seconds, cpu_us, lone_s * 1_000)


def _handshakes_per_s(address: str, server_key: str, pair: KeyPair, count: int) -> float:
    hello = codec.encode(Hello(request_id=1))
    begun_s = monotonic_s()
    with zmq.Context() as context:
        for first in range(0, count, CONNECTING_COUNT):
            together = min(CONNECTING_COUNT, count - first)
            sockets = [context.socket(zmq.DEALER) for _ in range(together)]
            for socket in sockets:
                socket.setsockopt(zmq.LINGER, 0)
                socket.setsockopt(zmq.RCVTIMEO, ANSWER_TIMEOUT_MS)
                connect_encrypted(socket, pair, server_key)
                socket.connect(address)
                socket.send(hello)
            for socket in sockets:
                answer = codec.decode_answer(socket.recv())
                assert isinstance(answer, HelloAnswer), answer
                socket.close(0)
    return count / (monotonic_s() - begun_s)


def _result(
    load: EncryptionLoad, plain: list[_Round], encrypted: list[_Round], rates: list[float]
) -> EncryptionResult:
    pairs = list(zip(plain, encrypted, strict=True))
    return EncryptionResult(
        load=load,
        plain_entries_per_s=statistics.median(one.entries_per_s for one in plain),
        encrypted_entries_per_s=statistics.median(one.entries_per_s for one in encrypted),
        rate_ratio=statistics.median(on.entries_per_s / off.entries_per_s for off, on in pairs),
        plain_cpu_us=statistics.median(one.cpu_us for one in plain),
        encrypted_cpu_us=statistics.median(one.cpu_us for one in encrypted),
        cpu_ratio=sum(one.cpu_us for one in plain) / sum(one.cpu_us for one in encrypted),
        plain_p50_ms=statistics.median(one.p50_ms for one in plain),
        encrypted_p50_ms=statistics.median(one.p50_ms for one in encrypted),
        added_p50_ms=statistics.median(on.p50_ms - off.p50_ms for off, on in pairs),
        handshakes_per_s=statistics.median(rates),
    )
