"""The floor: the machine's speed with the same batches and no protocol at all.

Three bare processes receive the batches over ZeroMQ, append each to two files, and (for PD) call
``fdatasync`` once for all batches that had queued. One client sends the same prepared batch again
and again to all three, and counts it when two have answered. Nothing is checked, indexed, encoded,
hashed or kept in memory. zbk's speed is given as a share of the floor.

``python -m zbk.bench.floor FOLDER pd|vd`` is one such process; it prints its endpoint.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import zmq

from zbk.bench.percentiles import Percentiles, percentiles
from zbk.errors import RequestTimeoutError
from zbk.system.clock import monotonic_s
from zbk.system.process import usage

SERVER_COUNT: Final = 3
ACK_COUNT: Final = 2
DRAIN_COUNT_MAX: Final = 256
COPY_SIZE_MAX: Final = 256 * 1024
TIMEOUT_S: Final = 30.0
STOP: Final = b"stop"
JOURNAL_SIZE: Final = 64 * 1024 * 1024


class FloorResult(msgspec.Struct, frozen=True):
    """Figures of the floor. Rates are per second."""

    entry_count: int
    entry_size: int  # bytes of payload
    batch_entry_count: int
    seconds: float
    entries_per_s: float
    payload_mb_per_s: float
    latency: Percentiles
    server_cpu_ms: int
    client_cpu_ms: int


def serve(folder: str, *, is_synced: bool) -> None:
    """Run one bare process until it receives ``STOP``."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
    journal = os.open(path / "journal", flags)
    os.posix_fallocate(journal, 0, JOURNAL_SIZE)  # like a journal segment
    log = os.open(path / "entrylog", flags)
    context = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.bind("tcp://127.0.0.1:*")
    print(socket.getsockopt_string(zmq.LAST_ENDPOINT), flush=True)  # noqa: T201 - the parent reads it
    is_stopped = False
    while not is_stopped:
        socket.poll()
        waiting: list[list[bytes]] = []
        for _ in range(DRAIN_COUNT_MAX):
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if frames[1] == STOP:
                is_stopped = True
            else:
                waiting.append(frames)
        if not waiting:
            continue
        os.writev(log, [frames[-1] for frames in waiting])
        os.writev(journal, [part for frames in waiting for part in frames[1:]])
        if is_synced:
            os.fdatasync(journal)
        for frames in waiting:
            socket.send_multipart(frames[:2])
    context.destroy(linger=0)


def run(
    folder: str,
    *,
    entry_size: int,
    entry_count: int,
    batch_entry_count: int,
    stored_entry_size: int,
    window_size: int,
    is_synced: bool,
) -> FloorResult:
    """Start the three processes, send the batches, stop them. Sizes are in bytes.

    ``stored_entry_size`` is the size of an entry in a batch, header and digest included.
    """
    mode = "pd" if is_synced else "vd"
    servers = [
        subprocess.Popen(
            [sys.executable, "-m", "zbk.bench.floor", f"{folder}/floor{index}", mode],
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(SERVER_COUNT)
    ]
    try:
        endpoints = []
        for server in servers:
            assert server.stdout is not None, "its standard output is a pipe"
            endpoints.append(server.stdout.readline().strip())
        body = os.urandom(batch_entry_count * stored_entry_size)
        sizes = bytes(4 * batch_entry_count)
        batch_count = max(1, entry_count // batch_entry_count)
        window = max(1, window_size // len(body))
        before = [usage(server.pid) for server in servers]
        client_before = usage()
        seconds, latencies = _send_all(endpoints, [sizes, body], batch_count, window)
        cpu_ms = sum(
            usage(server.pid).since(start).cpu_ms
            for server, start in zip(servers, before, strict=True)
        )
        sent_count = batch_count * batch_entry_count
        return FloorResult(
            entry_count=sent_count,
            entry_size=entry_size,
            batch_entry_count=batch_entry_count,
            seconds=seconds,
            entries_per_s=sent_count / seconds,
            payload_mb_per_s=sent_count * entry_size / seconds / 1e6,
            latency=percentiles(latencies),
            server_cpu_ms=cpu_ms,
            client_cpu_ms=usage().since(client_before).cpu_ms,
        )
    finally:
        for server in servers:
            server.kill()
            server.wait()
            if server.stdout is not None:
                server.stdout.close()


def _send_all(
    endpoints: list[str], frames: list[bytes], batch_count: int, window: int
) -> tuple[float, list[float]]:
    context = zmq.Context()
    sockets = []
    poller = zmq.Poller()
    for endpoint in endpoints:
        socket = context.socket(zmq.DEALER)
        socket.connect(endpoint)
        poller.register(socket, zmq.POLLIN)
        sockets.append(socket)
    is_copied = all(len(frame) <= COPY_SIZE_MAX for frame in frames)
    answered = [0] * len(sockets)  # batches, by server; servers answer in order
    sent_s: list[float] = []
    latencies: list[float] = []
    started_s = monotonic_s()
    try:
        while min(answered) < batch_count:
            while len(sent_s) < batch_count and len(sent_s) - min(answered) < window:
                sent_s.append(monotonic_s())
                for socket in sockets:
                    socket.send_multipart([b"%08d" % len(sent_s), *frames], copy=is_copied)
            ready = dict(poller.poll(int(TIMEOUT_S * 1000)))
            if not ready:
                raise RequestTimeoutError("the floor's processes", TIMEOUT_S)
            for index, socket in enumerate(sockets):
                if socket in ready:
                    answered[index] += _drain(socket)
            done_count = sorted(answered, reverse=True)[ACK_COUNT - 1]
            now_s = monotonic_s()
            latencies += [now_s - at_s for at_s in sent_s[len(latencies) : done_count]]
        return monotonic_s() - started_s, latencies
    finally:
        for socket in sockets:
            socket.send_multipart([STOP])
        context.destroy(linger=200)


def _drain(socket: zmq.Socket[bytes]) -> int:
    count = 0
    while True:
        try:
            socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return count
        count += 1


if __name__ == "__main__":
    serve(sys.argv[1], is_synced=sys.argv[2] == "pd")
