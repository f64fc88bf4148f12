"""The place of a benchmark: a temporary folder and cluster, or the given cluster."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zbk.cli.output import note
from zbk.cli.session import Session
from zbk.cli.signals import end_like_ctrl_c
from zbk.errors import InvalidOptionError

if TYPE_CHECKING:
    from zbk.bench.floor import FloorResult
    from zbk.bench.load import WriteLoad
    from zbk.client.api import Client

BOOKIE_COUNT: Final = 3
"""Bookies of a temporary cluster, unless a load needs more."""


@contextmanager
def bench_folder() -> Iterator[Path]:
    """Yield a folder that is removed at the end, also after a signal."""
    end_like_ctrl_c()
    folder = Path(tempfile.mkdtemp(prefix="zbk-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def bench_client(
    session: Session,
    metadata: str | None,
    folder: Path,
    *,
    use_zookeeper: bool = False,
    bookie_count: int = BOOKIE_COUNT,
    bookie_options: Mapping[str, int | str] | None = None,
) -> "Iterator[Client]":
    """Yield a client of the given cluster, or of a temporary one.

    ``bookie_options`` are those of ``LocalCluster``; the bookies of a given cluster keep theirs.

    Raises:
        InvalidOptionError: a cluster is given, and a ZooKeeper was requested.
    """
    if metadata is not None:
        if use_zookeeper:
            raise InvalidOptionError(
                "zookeeper", metadata, "a cluster is given: no ZooKeeper is started"
            )
        with session.open_client(metadata) as client:
            yield client
        return
    from zbk.cluster.local import LocalCluster

    note(f"starting a temporary cluster of {bookie_count} bookies")
    with (
        LocalCluster(
            folder / "cluster",
            bookie_count=bookie_count,
            use_zookeeper=use_zookeeper,
            bookie_options=bookie_options,
        ) as cluster,
        session.open_client(cluster.metadata_uri) as client,
    ):
        yield client


def warm(folder: Path, load: "WriteLoad") -> None:
    """Warm the memory of the page cache that a load will fill."""
    from zbk.bench.warm import warm_page_cache
    from zbk.protocol.entry.entry import entry_size
    from zbk.protocol.entry.words import DigestType

    stored_size = entry_size(load.entry_size, DigestType.XXH3) * load.entry_count
    warm_page_cache(str(folder), 2 * load.write_quorum_size * stored_size)  # journal and entry log


def run_floor(folder: Path, load: "WriteLoad", batch_entry_count: int) -> "FloorResult":
    """Run the floor with batches of the size that a load had."""
    from zbk.bench.floor import run
    from zbk.config import ClientConfig
    from zbk.protocol.entry.entry import entry_size
    from zbk.protocol.entry.words import DigestType

    stored_size = entry_size(load.entry_size, DigestType.XXH3)
    in_calls_size = load.window * load.batch_count * stored_size
    return run(
        str(folder),
        entry_size=load.entry_size,
        entry_count=load.entry_count,
        batch_entry_count=max(1, batch_entry_count),
        stored_entry_size=stored_size,
        window_size=min(ClientConfig().window_size, in_calls_size),
        is_synced=not load.ledger_type.is_volatile,
    )
