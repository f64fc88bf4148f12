"""Saved results of peers, for the report.

``python -m benchmarks.peers NAME --save`` writes ``peers-NAME-SIZE-API.json``; nothing here starts
a peer.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.case import PeerShape, rate_text, size_text
from zbk.conversion import convert, decode_json

HEAD: Final = (
    "| peer | what a confirmation means | load | entry | entries/s | MB/s | p50 ms | p99 ms "
    "| CPU an entry, client + servers | rounds |\n|---|---|---|---|---|---|---|---|---|---|"
)


class PeerResults(msgspec.Struct, frozen=True):
    """A peer's file: one line per round, and the medians of the figures."""

    rounds: list[dict[str, Any]]
    median: dict[str, float]

    @property
    def name(self) -> str:
        """The peer's name."""
        return str(self.rounds[0]["measured"])

    @property
    def shape(self) -> PeerShape:
        """The shape of the load."""
        return convert(self.rounds[0], PeerShape)

    @property
    def note(self) -> str:
        """The remark for a peer's figure beside a row of zbk."""
        return "" if self.rounds[0]["is_fsynced"] else ", not fsynced"


def load_peers(folder: Path) -> list[PeerResults]:
    """Return the peers' results in a folder, grouped by peer."""
    found = [
        decode_json(path.read_bytes(), PeerResults) for path in sorted(folder.glob("peers-*.json"))
    ]
    return sorted(found, key=_order)


def peers_table(peers: Sequence[PeerResults]) -> str:
    """Return a table of the results; empty if there are none."""
    return "\n".join([HEAD, *map(_line, peers)]) if peers else ""


def _order(peer: PeerResults) -> tuple[str, str, int, int, int]:
    shape = peer.shape
    return peer.name, shape.api, shape.process_count, shape.ledger_count, shape.entry_size


def _load_text(shape: PeerShape) -> str:
    """Return a short description of a load.

    >>> _load_text(PeerShape(100, "async", ledger_count=16))
    '`async`, one unanswered in each of 16 streams'
    """
    if shape.process_count > 1:
        return f"`{shape.api}`, {shape.process_count} processes"
    if shape.ledger_count > 1 and shape.api == "sync":
        return f"`{shape.api}`, one after another in each of {shape.ledger_count} streams"
    if shape.ledger_count > 1:
        return f"`{shape.api}`, one unanswered in each of {shape.ledger_count:,} streams"
    return f"`{shape.api}`"


def _line(peer: PeerResults) -> str:
    shape = peer.shape
    client, servers = (peer.median[f"{who}_cpu_us_per_entry"] for who in ("client", "server"))
    cells = (
        f"{peer.name} {peer.rounds[0]['version']}",
        str(peer.rounds[0]["durability"]),
        _load_text(shape),
        size_text(shape.entry_size),
        rate_text(peer.median["entries_per_s"]),
        f"{peer.median['payload_mb_per_s']:.0f}",
        f"{peer.median['latency_p50_ms']:.2f}",
        f"{peer.median['latency_p99_ms']:.2f}",
        f"{client:.0f} + {servers:.0f} µs",
        str(len(peer.rounds)),
    )
    return f"| {' | '.join(cells)} |"
