"""One connection whose message never ends, in large frames and in tiny ones."""

from pathlib import Path
from typing import Final

import zbk
from tests.hostile.reads import MIB, Watch
from tests.support.cluster import lone_ledger
from tests.support.raw_peers import RawPeer
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_ms
from zbk.wire import codec
from zbk.wire.messages import Hello

RUN_MS: Final = 10_000
FRAME_SIZES: Final = (MIB, 1_000, 0)


def attack_with_multipart(folder: Path) -> None:
    """Run it with frames of several sizes, each for a while; the peer comes again when it can."""
    with LocalCluster(folder / "data", bookie_count=1) as cluster:
        (bookie,) = cluster.bookies
        watch = Watch(bookie.pid)
        idle_size = watch.look()
        with zbk.connect(cluster.metadata_uri) as client, lone_ledger(client) as ledger:
            for frame_size in FRAME_SIZES:
                watch.size_max = 0
                sent_size, connection_count = _send(bookie.address, frame_size, watch)
                began_ms = monotonic_ms()
                ledger.append(b"x")
                print(  # noqa: T201 - it is a command
                    f"frames of {frame_size} bytes: {sent_size // MIB} MiB sent by "
                    f"{connection_count} connections, one after the other; RSS at most "
                    f"{watch.size_max // MIB} MiB ({idle_size // MIB} MiB before); an append "
                    f"beside it took {monotonic_ms() - began_ms} ms"
                )
        stopped = cluster.deaths()
    print(f"the bookie {'stopped' if stopped else 'goes on'}")  # noqa: T201 - it is a command


def _send(address: str, frame_size: int, watch: Watch) -> tuple[int, int]:
    sent_size = connection_count = 0
    end_ms = monotonic_ms() + RUN_MS
    with RawPeer(address) as peer:
        while monotonic_ms() < end_ms:
            try:
                peer.connect_again()
                peer.greet()
                peer.send_message(codec.encode(Hello(request_id=1)))
                connection_count += 1
                frames = peer.frame(b"x" * frame_size, has_more=True)
                frames *= max(1, 65_536 // len(frames))
                while monotonic_ms() < end_ms:
                    peer.socket.sendall(frames)
                    sent_size += len(frames)
                    watch.look()
            except OSError:
                pass
            watch.look()
    return sent_size, connection_count
