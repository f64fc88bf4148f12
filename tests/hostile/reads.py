"""Connections that send reads and never receive, beside a reader that does."""

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import zbk
from tests.support.cluster import lone_ledger
from tests.support.raw_peers import RawPeer
from zbk.cluster.local import LocalCluster
from zbk.protocol.entry.digest import ledger_key
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_ms
from zbk.system.process import usage
from zbk.wire import codec
from zbk.wire.messages import Hello, Read

MIB: Final = 1 << 20
PEER_COUNT: Final = 6
ENTRY_COUNT: Final = 64
RUN_MS: Final = 15_000


def attack_with_reads(folder: Path) -> None:
    """Run it, and print what it did to memory and to the reader."""
    with LocalCluster(folder / "data", bookie_count=1) as cluster:
        (bookie,) = cluster.bookies
        with zbk.connect(cluster.metadata_uri) as client, ExitStack() as stack:
            with lone_ledger(client) as ledger:
                for _ in range(ENTRY_COUNT):
                    ledger.append_async(b"." * (MIB - 1))
                ledger.append(b"last")
            watch = Watch(bookie.pid)
            idle_size = watch.look()
            alone = read_for(client, ledger.ledger_id, RUN_MS // 3, watch.look)
            peers = [
                stack.enter_context(Glutton(bookie.address, ledger.ledger_id, bookie.incarnation))
                for _ in range(PEER_COUNT)
            ]
            beside = read_for(client, ledger.ledger_id, RUN_MS, watch.look)
            sent_count = sum(peer.sent_count for peer in peers)
            stopped = cluster.deaths()
    print(  # noqa: T201 - it is a command
        f"{PEER_COUNT} connections sent {sent_count} reads of 1 MiB and received nothing\n"
        f"  RSS: {idle_size // MIB} MiB at first, at most {watch.size_max // MIB} MiB\n"
        f"  a reader alone:      {alone}\n"
        f"  a reader beside them: {beside}\n"
        f"  the bookie {'stopped' if stopped else 'goes on'}"
    )


class Watch:
    """The memory of a process, and the most it was."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.size_max = 0

    def look(self) -> int:
        size = usage(self._pid).rss_size
        self.size_max = max(self.size_max, size)
        return size


def read_for(client: zbk.Client, ledger_id: int, run_ms: int, look: Callable[[], int]) -> str:
    """Read one entry after another for a time; return what came of it."""
    took_ms: list[int] = []
    failures: list[str] = []
    began_ms = monotonic_ms()
    with client.open_ledger(ledger_id) as reader:
        while (now_ms := monotonic_ms()) < began_ms + run_ms:
            entry_id = len(took_ms) % ENTRY_COUNT
            try:
                list(reader.read(entry_id, entry_id))
            except zbk.ZbkError as error:
                failures.append(str(error))
            took_ms.append(monotonic_ms() - now_ms)
            look()
    took_ms.sort()
    p99_ms = took_ms[len(took_ms) * 99 // 100]
    told = (
        f"{len(took_ms)} reads, {len(failures)} errors, p99 {p99_ms} ms, at most {took_ms[-1]} ms"
    )
    return told + "".join(f"; {one}" for one in failures[:1])


class Glutton(RawPeer):
    """Sends reads as fast as the connection takes them, and comes again when it is closed."""

    def __init__(self, endpoint: str, ledger_id: int, incarnation: int) -> None:
        super().__init__(endpoint, is_greeting=True)
        self.sent_count = 0
        self._read = Read(
            request_id=2,
            incarnation=incarnation,
            ledger_id=ledger_id,
            ledger_key=ledger_key(b"", ledger_id),
            ledger_type=LedgerType.PD_JOURNAL,
            first_entry_id=0,
            last_entry_id=ENTRY_COUNT - 1,
            size_max=MIB,
        )
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        request = self.frame(codec.encode(self._read))
        hello = self.frame(codec.encode(Hello(request_id=1)))
        while not self._is_stopped.is_set():
            try:
                self.socket.sendall(hello)
                while not self._is_stopped.is_set():
                    self.socket.sendall(request * 16)
                    self.sent_count += 16
            except OSError:
                with suppress(OSError):
                    self.connect_again()
                    self.greet()

    def stop(self) -> None:
        """Send no more."""
        self._is_stopped.set()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
