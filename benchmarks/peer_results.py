"""What peers did on such a machine, as far as it was measured, for the report.

``python -m benchmarks.peers NAME --save`` writes ``peers-NAME-SIZE-API.json``; nothing here starts
a peer.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.case import rate_text, size_text

HEAD: Final = (
    "| peer | what a confirmation means | api | entry | entries/s | MB/s | p50 ms | p99 ms |\n"
    "|---|---|---|---|---|---|---|---|"
)


class PeerResults(msgspec.Struct, frozen=True):
    """A peer's file: a line for each round, and medians of what is measured in them."""

    rounds: list[dict[str, Any]]
    median: dict[str, float]

    @property
    def name(self) -> str:
        """The peer's name."""
        return str(self.rounds[0]["measured"])

    @property
    def shape(self) -> tuple[int, str]:
        """Bytes of payload in an entry, and the kind of call."""
        return int(self.rounds[0]["entry_size"]), str(self.rounds[0]["api"])

    @property
    def note(self) -> str:
        """What one has to know when it stands beside a row of ours."""
        return "" if self.rounds[0]["is_fsynced"] else ", not fsynced"


def load_peers(folder: Path) -> list[PeerResults]:
    """Return the peers' results in a folder, those of one peer together."""
    found = [
        msgspec.json.decode(path.read_bytes(), type=PeerResults)
        for path in sorted(folder.glob("peers-*.json"))
    ]
    return sorted(found, key=lambda one: (one.name, one.shape[1], one.shape[0]))


def peers_table(peers: Sequence[PeerResults]) -> str:
    """Return a table of them; empty if there are none."""
    return "\n".join([HEAD, *map(_line, peers)]) if peers else ""


def _line(peer: PeerResults) -> str:
    size, api = peer.shape
    cells = (
        f"{peer.name} {peer.rounds[0]['version']}",
        str(peer.rounds[0]["durability"]),
        f"`{api}`",
        size_text(size),
        rate_text(peer.median["entries_per_s"]),
        f"{peer.median['payload_mb_per_s']:.0f}",
        f"{peer.median['latency_p50_ms']:.2f}",
        f"{peer.median['latency_p99_ms']:.2f}",
    )
    return f"| {' | '.join(cells)} |"
