"""More connections than a bookie has file descriptors."""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import zbk
from tests.support.cluster import lone_ledger
from tests.support.limited_bookie import limited_program
from tests.support.raw_peers import RawPeer
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_ms

DESCRIPTOR_COUNT: Final = 1_024
PEER_COUNT: Final = 1_500


def attack_with_connections(folder: Path) -> None:
    """Run it with mute connections, then with those that go through ZeroMQ's handshake."""
    for name, is_greeting in (("mute", False), ("after ZeroMQ's handshake", True)):
        with LocalCluster(
            folder / name[:4],
            bookie_count=1,
            bookie_programs={0: limited_program(DESCRIPTOR_COUNT)},
        ) as cluster:
            _attack(cluster, name, is_greeting=is_greeting)


def _attack(cluster: LocalCluster, name: str, *, is_greeting: bool) -> None:
    (bookie,) = cluster.bookies
    stop = threading.Event()
    append_ms: list[int] = []
    failures: list[str] = []
    fd_counts = [0]
    with zbk.connect(cluster.metadata_uri) as early, ExitStack() as peers:
        with lone_ledger(early) as first:
            first.append(b"x")

        def work() -> None:
            while not stop.is_set():
                began_ms = monotonic_ms()
                try:
                    with lone_ledger(early) as ledger:
                        ledger.append(b"x")
                except zbk.ZbkError as error:
                    failures.append(str(error))
                append_ms.append(monotonic_ms() - began_ms)
                fd_counts.append(sum(1 for _ in Path(f"/proc/{bookie.pid}/fd").iterdir()))

        worker = threading.Thread(target=work)
        worker.start()
        began_ms = monotonic_ms()
        for _ in range(PEER_COUNT):
            peers.enter_context(RawPeer(bookie.address, is_greeting=is_greeting))
        opened_ms = monotonic_ms()
        with zbk.connect(cluster.metadata_uri) as late, lone_ledger(late) as ledger:
            ledger.append(b"x")
        late_ms = monotonic_ms() - opened_ms
        stop.set()
        worker.join()
    print(  # noqa: T201 - it is a command
        f"{PEER_COUNT} connections, {name}: opened in {(opened_ms - began_ms) / 1_000:.1f} s; the "
        f"bookie had at most {max(fd_counts)} of {DESCRIPTOR_COUNT} descriptors\n"
        f"  the client that was there: {len(append_ms)} ledgers created and written, "
        f"{len(failures)} errors, the slowest took {max(append_ms)} ms\n"
        f"  a new client: created and wrote a ledger {late_ms} ms after the last connection\n"
        f"  the bookie {'stopped' if cluster.deaths() else 'goes on'}"
    )
